// The server side: one poll loop over listeners and ranks; join.cpp is the other end.
//
// A world passes through gathering (ranks attach), introducing (everybody gets everybody's life
// file), confirming (every rank reports ready) and ends with Go; a failure at any time goes to all
// ranks, late ones included. Descriptors in flight are limited per user (ETOOMANYREFS), so
// introducing may pause.
#include "world/rendezvous.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "world/interface.hpp"
#include "world/life.hpp"
#include "world/machine.hpp"
#include "world/socket.hpp"
#include "world/wire.hpp"

namespace sabot::world {
namespace {

constexpr std::size_t kConnectionsMax = 4096;
constexpr std::uint64_t kSilenceMax_ns =
    10'000'000'000;  // for a stranger that connects and says nothing
constexpr std::uint64_t kLingerMax_ns = 60'000'000'000;  // after a failure, for late ranks
constexpr int kTickMs = 50;
constexpr int kMissingNamedMax = 16;

struct Connection {
  Fd fd;
  bool is_local = false;
  bool is_attached = false;  // local, said Hello, counts as its rank
  bool is_ready = false;
  std::uint64_t since_ns = 0;
  std::size_t received = 0;    // bytes of hello so far (TCP)
  std::size_t introduced = 0;  // members sent so far
  Hello hello;
  Fd life;
  Fd gift;
};

std::string who(const Hello& hello) {
  return "rank " + std::to_string(hello.rank) + " (pid " + std::to_string(hello.pid) + ")";
}

class Rendezvous {
 public:
  Rendezvous(const ServeOptions& options, const WorldName& world, const OwnLife& own)
      : options_(options), world_(world), own_(own), machine_(machine_identity()) {}

  Status listen(bool with_tcp, Address& address) {
    local_ = SABOT_TRY(listen_unix(local_socket_name(world_)));
    if (with_tcp) tcp_ = SABOT_TRY(listen_tcp(address));
    deadline_ns_ = monotonic_ns() + options_.unused_lifetime_ns;
    return {};
  }
  void expect(int ranks) { ranks_ = ranks; }
  void run();

 private:
  void tick();
  void poll_once(int timeout_ms);
  void accept_from(int listener, bool is_local);
  void read_from(Connection& connection);
  void read_stream(Connection& connection);
  void read_packet(Connection& connection);
  void greet(Connection& connection);
  void attach(Connection& connection, std::vector<Fd> fds);
  void lost(Connection& connection);
  std::optional<Error> objection(const Hello& hello) const;
  void introduce();
  bool introduce_to(Connection& connection);
  bool send_members(Connection& to, std::size_t first);
  int life_of(const Connection& member) const;
  void conclude();
  void fail(Error error);
  void tell_failure(Connection& connection);
  bool everybody_knows() const {
    return ranks_ > 0 && told_.size() >= static_cast<std::size_t>(ranks_);
  }
  Error missing() const;
  void drop(Connection& connection) { connection.fd.reset(); }

  ServeOptions options_;
  WorldName world_;
  const OwnLife& own_;
  std::string machine_;
  Fd tcp_;
  Fd local_;
  std::uint64_t deadline_ns_ = 0;
  int ranks_ = 0;  // 0 = nobody has come yet
  std::string ranks_said_by_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<pollfd> polled_;  // kept: an idle server leaves the allocator of its process alone
  std::map<int, Connection*> members_;  // attached, by rank
  std::set<int> told_;                  // ranks that know the failure
  std::optional<Error> failure_;
  bool introducing_ = false;
  bool paused_ = false;  // too many descriptors in flight
  bool done_ = false;
};

void Rendezvous::run() {
  while (!done_) {
    poll_once(paused_ ? 2 : kTickMs);
    tick();
  }
}

void Rendezvous::tick() {
  if (introducing_ && !failure_) introduce();
  const std::uint64_t now = monotonic_ns();
  for (const auto& connection : connections_) {
    const bool silent = !connection->is_attached && now - connection->since_ns > kSilenceMax_ns &&
                        connection->received < sizeof(Hello);
    if (connection->fd.valid() && silent) drop(*connection);
  }
  std::erase_if(connections_, [](const auto& connection) { return !connection->fd.valid(); });
  if (failure_ && everybody_knows()) done_ = true;
  if (now < deadline_ns_) return;
  if (failure_ || ranks_ == 0) {
    done_ = true;
  } else {
    fail(missing());
  }
}

void Rendezvous::poll_once(int timeout_ms) {
  std::vector<pollfd>& entries = polled_;
  entries.clear();
  entries.push_back({local_.get(), POLLIN, 0});
  if (tcp_.valid()) entries.push_back({tcp_.get(), POLLIN, 0});
  const std::size_t listeners = entries.size();
  const std::size_t known = connections_.size();
  for (const auto& connection : connections_) entries.push_back({connection->fd.get(), POLLIN, 0});
  if (::poll(entries.data(), entries.size(), timeout_ms) <= 0) return;
  for (std::size_t i = 0; i < known; ++i) {
    if (entries[listeners + i].revents != 0 && connections_[i]->fd.valid())
      read_from(*connections_[i]);
  }
  if (entries[0].revents != 0) accept_from(local_.get(), true);
  if (listeners > 1 && entries[1].revents != 0) accept_from(tcp_.get(), false);
}

void Rendezvous::accept_from(int listener, bool is_local) {
  while (connections_.size() < kConnectionsMax) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) return;
    auto connection = std::make_unique<Connection>();
    connection->fd = std::move(fd);
    connection->is_local = is_local;
    connection->since_ns = monotonic_ns();
    connections_.push_back(std::move(connection));
  }
}

void Rendezvous::read_from(Connection& connection) {
  if (connection.is_local) {
    read_packet(connection);
  } else {
    read_stream(connection);
  }
}

void Rendezvous::read_stream(Connection& connection) {
  // A second Hello on the same stream is a rank that could not reach the local socket and says why.
  if (connection.received == sizeof(Hello)) connection.received = 0;
  const std::span<std::byte> rest =
      writable_bytes_of_message(connection.hello).subspan(connection.received);
  const ssize_t got = ::recv(connection.fd.get(), rest.data(), rest.size(), 0);
  if (got <= 0) {
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) drop(connection);
    return;
  }
  connection.received += static_cast<std::size_t>(got);
  if (connection.received == sizeof(Hello)) greet(connection);
}

void Rendezvous::read_packet(Connection& connection) {
  if (connection.is_attached) {
    Report report;
    report.magic = 0;
    Result<Packet> packet = receive_packet(connection.fd.get(), writable_bytes_of_message(report));
    if (!packet.ok() && packet.error().code() == Code::kInProgress) return;
    if (!packet.ok() || packet->bytes != sizeof report || report.magic != kWireMagic) {
      return lost(connection);
    }
    if (!report.outcome.ok()) {
      const Error said = report.outcome.error();
      told_.insert(connection.hello.rank);
      return fail(
          Error(Code::kRemote, who(connection.hello) + " failed to join: " + said.message()));
    }
    connection.is_ready = true;
    return conclude();
  }
  Result<Packet> packet =
      receive_packet(connection.fd.get(), writable_bytes_of_message(connection.hello));
  if (!packet.ok() && packet.error().code() == Code::kInProgress) return;
  if (!packet.ok() || packet->bytes != sizeof(Hello)) return drop(connection);
  attach(connection, std::move(packet->fds));
}

// Over TCP a rank is checked and sent on; only over the local socket does it count as present.
void Rendezvous::greet(Connection& connection) {
  const Hello& hello = connection.hello;
  if (hello.magic != kWireMagic || hello.world != world_) return drop(connection);
  if (hello.is_discard != 0) {
    done_ = true;
    return;
  }
  if (ranks_ == 0 && hello.outcome.ok()) deadline_ns_ = monotonic_ns() + options_.timeout_ns;
  if (!failure_) {
    if (std::optional<Error> error = objection(hello)) fail(std::move(*error));
  }
  Welcome welcome;
  welcome.local_name.set(local_socket_name(world_));
  if (failure_) {
    welcome.outcome.set(*failure_);
    told_.insert(hello.rank);
  }
  const ssize_t sent =
      ::send(connection.fd.get(), &welcome, sizeof welcome, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent != static_cast<ssize_t>(sizeof welcome)) drop(connection);
}

std::optional<Error> Rendezvous::objection(const Hello& hello) const {
  if (hello.protocol != kProtocol) {
    return Error(Code::kInvalidUsage, who(hello) +
                                          " runs another release of Sabot; start every rank "
                                          "with the same release");
  }
  if (!hello.outcome.ok()) {
    return Error(Code::kRemote, who(hello) + " failed to join: " + hello.outcome.text.get());
  }
  if (hello.api_version != options_.api_version) {
    return Error(Code::kInvalidUsage,
                 who(hello) + " uses NCCL version " + api_version_text(hello.api_version) +
                     ", but the unique id was made with " + api_version_text(options_.api_version) +
                     "; load the same library on every rank");
  }
  if (hello.machine.get() != machine_) {
    return Error(Code::kInvalidUsage,
                 who(hello) + " runs on machine " + hello.machine_name.get() +
                     ", but the unique id was made on " + machine_name() +
                     "; the host engine joins processes of one machine, across machines use the "
                     "engine 'real'");
  }
  if (ranks_ != 0 && hello.ranks != ranks_) {
    return Error(Code::kInvalidUsage, who(hello) + " expects " + std::to_string(hello.ranks) +
                                          " ranks, but " + ranks_said_by_ + " expects " +
                                          std::to_string(ranks_) +
                                          "; pass the same nranks on every rank");
  }
  if (hello.rank < 0 || hello.rank >= hello.ranks) {
    return Error(Code::kInvalidArgument, who(hello) + " is out of range; ranks are 0 to " +
                                             std::to_string(hello.ranks - 1));
  }
  return std::nullopt;
}

void Rendezvous::attach(Connection& connection, std::vector<Fd> fds) {
  const Hello& hello = connection.hello;
  if (hello.magic != kWireMagic || hello.world != world_) return drop(connection);
  if (ranks_said_by_.empty()) deadline_ns_ = monotonic_ns() + options_.timeout_ns;
  if (failure_) return tell_failure(connection);
  if (std::optional<Error> error = objection(hello)) {
    fail(std::move(*error));
    return tell_failure(connection);
  }
  if (ranks_said_by_.empty()) {
    ranks_ = hello.ranks;
    ranks_said_by_ = who(hello);
  }
  const auto [place, is_new] = members_.try_emplace(hello.rank, &connection);
  if (!is_new) {
    fail(Error(Code::kInvalidUsage,
               "rank " + std::to_string(hello.rank) + " came twice, from pid " +
                   std::to_string(place->second->hello.pid) + " and from pid " +
                   std::to_string(hello.pid) + "; give every rank its own number"));
    return tell_failure(connection);
  }
  std::size_t next = 0;
  if (hello.process != own_.key && next < fds.size()) connection.life = std::move(fds[next++]);
  if (hello.rank == 0 && next < fds.size()) connection.gift = std::move(fds[next++]);
  connection.is_attached = true;
  if (members_.size() == static_cast<std::size_t>(ranks_)) introducing_ = true;
}

void Rendezvous::lost(Connection& connection) {
  const Hello hello = connection.hello;
  told_.insert(hello.rank);
  members_.erase(hello.rank);
  drop(connection);
  if (failure_) return;
  fail(Error(Code::kRemote, who(hello) + " left during initialisation; look at its own output"));
}

void Rendezvous::introduce() {
  bool finished = true;
  paused_ = false;
  for (const auto& [rank, connection] : members_) {
    if (!introduce_to(*connection)) finished = false;
    if (failure_) return;
  }
  if (finished) introducing_ = false;
}

bool Rendezvous::introduce_to(Connection& connection) {
  while (connection.introduced < static_cast<std::size_t>(ranks_)) {
    if (!send_members(connection, connection.introduced)) return false;
    connection.introduced =
        std::min(connection.introduced + kEntriesPerPacket, static_cast<std::size_t>(ranks_));
  }
  return true;
}

int Rendezvous::life_of(const Connection& member) const {
  return member.hello.process == own_.key ? own_.fd : member.life.get();
}

bool Rendezvous::send_members(Connection& to, std::size_t first) {
  Answer answer;
  answer.kind = AnswerKind::kMembers;
  answer.first = static_cast<std::uint32_t>(first);
  std::vector<int> fds;
  const Connection& root = *members_.at(0);
  if (first == 0 && root.gift.valid()) {
    answer.has_gift = 1;
    fds.push_back(root.gift.get());
  }
  std::set<ProcessKey> sent;
  const std::size_t end = std::min(first + kEntriesPerPacket, static_cast<std::size_t>(ranks_));
  for (std::size_t rank = 0; rank < end; ++rank) {
    const Connection& member = *members_.at(static_cast<int>(rank));
    const bool is_new = sent.insert(member.hello.process).second;
    if (rank < first) continue;
    MemberEntry& entry = answer.entries[rank - first];
    entry.pid = member.hello.pid;
    entry.process = member.hello.process;
    const int life = life_of(member);
    if (is_new && entry.process != to.hello.process && life >= 0) {
      entry.has_fd = 1;
      fds.push_back(life);
    }
  }
  answer.count = static_cast<std::uint32_t>(end - first);
  const Status sent_status = send_packet(to.fd.get(), bytes_of_message(answer), fds);
  if (sent_status.ok()) return true;
  if (sent_status.error().code() == Code::kInProgress) {
    paused_ = true;
  } else {
    const Hello hello = to.hello;
    fail(Error(Code::kRemote,
               "introducing the ranks to " + who(hello) + ": " + sent_status.error().message()));
  }
  return false;
}

void Rendezvous::conclude() {
  for (const auto& [rank, connection] : members_) {
    if (!connection->is_ready) return;
  }
  if (members_.size() != static_cast<std::size_t>(ranks_) || failure_) return;
  Answer go;
  go.kind = AnswerKind::kGo;
  // Ranks of this process last: they may end it as soon as they are told, and this thread with it.
  // A rank that died in this moment is noticed by its life file at the first operation.
  for (const bool here : {false, true}) {
    for (const auto& [rank, connection] : members_) {
      if ((connection->hello.process == own_.key) != here) continue;
      send_packet(connection->fd.get(), bytes_of_message(go), {}).ignore();
    }
  }
  done_ = true;
}

void Rendezvous::fail(Error error) {
  failure_ = std::move(error);
  deadline_ns_ = monotonic_ns() + std::min(options_.timeout_ns, kLingerMax_ns);
  for (const bool here : {false, true}) {  // ranks of this process last, as in conclude()
    for (const auto& [rank, connection] : members_) {
      if ((connection->hello.process == own_.key) == here) tell_failure(*connection);
    }
  }
  members_.clear();
}

void Rendezvous::tell_failure(Connection& connection) {
  Answer answer;
  answer.kind = AnswerKind::kFailed;
  answer.outcome.set(*failure_);
  if (connection.fd.valid()) {
    send_packet(connection.fd.get(), bytes_of_message(answer), {}).ignore();
  }
  told_.insert(connection.hello.rank);
  drop(connection);
}

Error Rendezvous::missing() const {
  std::string names;
  int count = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (members_.count(rank) != 0) continue;
    ++count;
    if (count <= kMissingNamedMax)
      names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
  }
  if (count > kMissingNamedMax)
    names += " and " + std::to_string(count - kMissingNamedMax) + " more";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g", static_cast<double>(options_.timeout_ns) * 1e-9);
  if (count == 0) {
    return Error(Code::kTimeout, "all " + std::to_string(ranks_) +
                                     " ranks came, but not all were "
                                     "ready within " +
                                     seconds + " s");
  }
  return Error(Code::kTimeout, names + " of " + std::to_string(ranks_) + " did not come within " +
                                   seconds +
                                   " s; see whether they started and reached ncclCommInitRank");
}

void* thread_main(void* argument) {
  const std::unique_ptr<Rendezvous> rendezvous(static_cast<Rendezvous*>(argument));
  rendezvous->run();
  return nullptr;
}

Status start(std::unique_ptr<Rendezvous> rendezvous) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int outcome = ::pthread_create(&thread, nullptr, thread_main, rendezvous.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (outcome != 0) {
    return Error(Code::kSystem,
                 std::string("starting the rendezvous thread: ") + std::strerror(outcome));
  }
  rendezvous.release();  // NOLINT: the thread owns it now
  ::pthread_detach(thread);
  return {};
}

}  // namespace

Result<UniqueId> open_rendezvous(const ServeOptions& options) {
  const OwnLife& own = *SABOT_TRY(own_life());
  const std::vector<Interface> all = SABOT_TRY(interfaces());
  IdContent content;
  content.address = SABOT_TRY(choose_address(all, options.interface));
  content.world = {SABOT_TRY(random_bits()), SABOT_TRY(random_bits())};
  content.api_version = options.api_version;
  content.creator_pid = own.pid;
  auto rendezvous = std::make_unique<Rendezvous>(options, content.world, own);
  SABOT_TRY(rendezvous->listen(true, content.address));
  SABOT_TRY(start(std::move(rendezvous)));
  return write_id(content);
}

Status open_named_rendezvous(const WorldName& name, int ranks, const ServeOptions& options) {
  const OwnLife& own = *SABOT_TRY(own_life());
  auto rendezvous = std::make_unique<Rendezvous>(options, name, own);
  Address none;
  SABOT_TRY(rendezvous->listen(false, none));
  rendezvous->expect(ranks);
  return start(std::move(rendezvous));
}

std::string local_socket_name(const WorldName& name) {
  char text[48];
  std::snprintf(text, sizeof text, "sabot-%016llx%016llx", static_cast<unsigned long long>(name[0]),
                static_cast<unsigned long long>(name[1]));
  return text;
}

std::string api_version_text(std::uint32_t code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

}  // namespace sabot::world
