// The client side of wire.hpp. Texts of failures that concern all ranks come from the server, so
// that every rank reports the same; only what keeps this rank from the server is worded here.
#include "world/join.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "world/interface.hpp"
#include "world/machine.hpp"
#include "world/rendezvous.hpp"
#include "world/wire.hpp"

namespace sabot::world {
namespace {

// The server's deadline counts from the first rank, so its text arrives before ours would be due.
constexpr std::uint64_t kServerGrace_ns = 3'000'000'000;
constexpr std::uint64_t kBestEffort_ns = 2'000'000'000;

std::string place(const JoinRequest& request) {
  return "rank " + std::to_string(request.rank) + " of " + std::to_string(request.ranks);
}

Hello hello_of(const JoinRequest& request, const WorldName& world, const OwnLife& own) {
  Hello hello;
  hello.api_version = request.api_version;
  hello.world = world;
  hello.rank = request.rank;
  hello.ranks = request.ranks;
  hello.pid = own.pid;
  hello.process = own.key;
  hello.machine.set(machine_identity());
  hello.machine_name.set(machine_name());
  return hello;
}

Patience patience_of(const JoinRequest& request, std::uint64_t limit_ns) {
  return {monotonic_ns() + limit_ns, request.interruption};
}

}  // namespace

class Joiner {
 public:
  Joiner(const JoinRequest& request, const WorldName& name, const OwnLife& own)
      : request_(request),
        own_(own),
        patience_(patience_of(request, request.timeout_ns + kServerGrace_ns)),
        hello_(hello_of(request, name, own)) {}

  Status greet(const IdContent& id);
  Status attach();
  Status wait_and_attach();
  Status collect();
  Membership finish();

 private:
  Status send_hello();
  Status take_members(const Answer& answer, std::vector<Fd> fds);
  Error lost(const Error& cause) const;

  const JoinRequest& request_;
  const OwnLife& own_;
  Patience patience_;
  Hello hello_;
  Fd tcp_;
  Fd local_;
  std::string local_name_;
  std::vector<Life> members_;
  Fd gift_;
};

Status Joiner::greet(const IdContent& id) {
  const Error unserved(
      Code::kRemote, "nobody listens at " + to_text(id.address) +
                         ", where the unique id points: its maker (pid " +
                         std::to_string(id.creator_pid) +
                         ") has ended, or the id has served a communicator already; make a new id "
                         "for every communicator");
  Result<Fd> connected = connect_tcp(id.address, patience_);
  if (!connected.ok() && connected.error().code() == Code::kNotFound) return unserved;
  if (!connected.ok()) {
    return std::move(connected).error().context("connecting to " + to_text(id.address) +
                                                ", where the unique id points");
  }
  tcp_ = std::move(connected).value();
  // A rendezvous that ends in this moment closes the connection that the kernel had accepted for
  // it.
  Welcome welcome;
  Status exchanged = send_all(tcp_.get(), bytes_of_message(hello_), patience_);
  if (exchanged.ok()) {
    exchanged = receive_all(tcp_.get(), writable_bytes_of_message(welcome), patience_);
  }
  if (!exchanged.ok() && exchanged.error().code() == Code::kRemote) return unserved;
  SABOT_TRY(std::move(exchanged));
  if (!welcome.outcome.ok()) return welcome.outcome.error();
  local_name_ = welcome.local_name.get();
  return {};
}

// The TCP connection stays open meanwhile: it is how the server hears of our failure here.
Status Joiner::attach() {
  Result<Fd> connected = connect_unix(local_name_);
  for (int tries = 0; !connected.ok() && connected.error().code() == Code::kNotFound && tries < 50;
       ++tries) {
    ::poll(nullptr, 0, 2);
    connected = connect_unix(local_name_);
  }
  if (!connected.ok()) {
    Error error(Code::kSystem,
                "the rendezvous answers over TCP, but its local socket '" + local_name_ +
                    "' cannot be reached (" + connected.error().message() +
                    "); are the ranks in containers with separate network namespaces?");
    hello_.outcome.set(error);
    send_all(tcp_.get(), bytes_of_message(hello_), patience_of({}, kBestEffort_ns)).ignore();
    return error;
  }
  local_ = std::move(connected).value();
  return send_hello();
}

Status Joiner::wait_and_attach() {
  local_name_ = local_socket_name(hello_.world);
  for (;;) {
    Result<Fd> connected = connect_unix(local_name_);
    if (connected.ok()) {
      local_ = std::move(connected).value();
      return send_hello();
    }
    if (connected.error().code() != Code::kNotFound) return std::move(connected).error();
    if (patience_.interruption) SABOT_TRY(patience_.interruption());
    if (monotonic_ns() >= patience_.deadline_ns) {
      return Error(Code::kTimeout, "the rank that opens the rendezvous did not come in time");
    }
    ::poll(nullptr, 0, 1);
  }
}

Status Joiner::send_hello() {
  std::vector<int> fds;
  // A server in this process must not get a second descriptor of our own life: see life.hpp.
  if (listener_of(local_.get()) != own_.pid) fds.push_back(own_.fd);
  if (request_.rank == 0 && request_.gift >= 0) fds.push_back(request_.gift);
  Status sent = send_packet(local_.get(), bytes_of_message(hello_), fds);
  while (!sent.ok() && sent.error().code() == Code::kInProgress) {
    SABOT_TRY(await(local_.get(), POLLOUT, patience_));
    ::poll(nullptr, 0, 1);
    sent = send_packet(local_.get(), bytes_of_message(hello_), fds);
  }
  if (!sent.ok()) return lost(sent.error());
  return {};
}

Status Joiner::collect() {
  while (members_.size() < static_cast<std::size_t>(request_.ranks)) {
    const Status ready = await(local_.get(), POLLIN, patience_);
    if (!ready.ok()) {
      Report report;
      report.outcome.set(ready.error());
      send_packet(local_.get(), bytes_of_message(report), {}).ignore();
      return ready.error();
    }
    Answer answer;
    Result<Packet> packet = receive_packet(local_.get(), writable_bytes_of_message(answer));
    if (!packet.ok() && packet.error().code() == Code::kInProgress) continue;
    if (!packet.ok()) {
      Report report;
      report.outcome.set(packet.error());
      send_packet(local_.get(), bytes_of_message(report), {}).ignore();
      return std::move(packet).error();
    }
    if (packet->bytes != sizeof answer) return lost(Error(Code::kRemote, "connection closed"));
    if (answer.kind == AnswerKind::kFailed) return answer.outcome.error();
    SABOT_TRY(take_members(answer, std::move(packet->fds)));
  }
  tcp_.reset();
  return {};
}

Status Joiner::take_members(const Answer& answer, std::vector<Fd> fds) {
  std::size_t next = 0;
  const std::size_t promised =
      answer.has_gift + static_cast<std::size_t>(std::count_if(
                            answer.entries.begin(), answer.entries.begin() + answer.count,
                            [](const MemberEntry& entry) { return entry.has_fd != 0; }));
  if (answer.first != members_.size() || promised != fds.size()) {
    return Error(Code::kInternal, "the rendezvous sent a list of ranks that makes no sense");
  }
  if (answer.has_gift != 0) gift_ = std::move(fds[next++]);
  for (std::size_t i = 0; i < answer.count; ++i) {
    const MemberEntry& entry = answer.entries[i];
    if (entry.process == own_.key) {
      members_.push_back(Life::of_this_process(own_));
    } else if (entry.has_fd != 0) {
      members_.push_back(Life::of_peer(entry.pid, entry.process, std::move(fds[next++])));
    } else {
      const auto known = std::find_if(members_.begin(), members_.end(), [&](const Life& life) {
        return life.key() == entry.process;
      });
      if (known == members_.end()) {
        return Error(Code::kInternal,
                     "the rendezvous lent no life file of pid " + std::to_string(entry.pid));
      }
      members_.push_back(*known);
    }
  }
  return {};
}

Error Joiner::lost(const Error& cause) const {
  if (cause.code() != Code::kRemote) return cause;
  return Error(Code::kRemote,
               "the process that made the unique id ended before all ranks had come");
}

Membership Joiner::finish() {
  Membership membership;
  membership.name_ = hello_.world;
  membership.members_ = std::move(members_);
  membership.gift_ = std::move(gift_);
  membership.server_ = std::move(local_);
  membership.request_ = request_;
  membership.deadline_ns_ = patience_.deadline_ns;
  return membership;
}

Result<Membership> Membership::within_process(int ranks) {
  const OwnLife& own = *SABOT_TRY(own_life());
  Membership membership;
  membership.name_ = {SABOT_TRY(random_bits()), SABOT_TRY(random_bits())};
  membership.members_.assign(static_cast<std::size_t>(ranks), Life::of_this_process(own));
  return membership;
}

Status Membership::confirm(const Status& mine) {
  if (!server_.valid()) return mine.ok() ? Status() : Status(mine.error());
  const Fd server = std::move(server_);
  Report report;
  if (!mine.ok()) report.outcome.set(mine.error());
  const Status sent = send_packet(server.get(), bytes_of_message(report), {});
  if (!mine.ok()) return mine.error();
  const Patience patience{deadline_ns_, request_.interruption};
  const std::string doing = "starting as " + place(request_);
  for (;;) {
    Status ready = await(server.get(), POLLIN, patience);
    if (!ready.ok()) return std::move(ready).error().context(doing);
    Answer answer;
    Result<Packet> packet = receive_packet(server.get(), writable_bytes_of_message(answer));
    if (!packet.ok() && packet.error().code() == Code::kInProgress) continue;
    if (!packet.ok()) return std::move(packet).error().context(doing);
    if (packet->bytes != sizeof answer) {
      return Error(Code::kRemote, doing +
                                      ": the process that made the unique id ended before all "
                                      "ranks were ready");
    }
    if (answer.kind == AnswerKind::kGo) return {};
    return answer.outcome.error().context(doing);
  }
}

Result<Membership> join(const UniqueId& id, const JoinRequest& request) {
  const std::string doing = "joining as " + place(request);
  const auto attempt = [&]() -> Result<Membership> {
    const IdContent content = SABOT_TRY(read_id(id));
    const OwnLife& own = *SABOT_TRY(own_life());
    Joiner joiner(request, content.world, own);
    SABOT_TRY(joiner.greet(content));
    SABOT_TRY(joiner.attach());
    SABOT_TRY(joiner.collect());
    return joiner.finish();
  };
  Result<Membership> result = attempt();
  if (!result.ok()) return std::move(result).error().context(doing);
  return result;
}

Result<Membership> join_named(const WorldName& name, const JoinRequest& request) {
  const std::string doing = "joining as " + place(request);
  const auto attempt = [&]() -> Result<Membership> {
    const OwnLife& own = *SABOT_TRY(own_life());
    Joiner joiner(request, name, own);
    SABOT_TRY(joiner.wait_and_attach());
    SABOT_TRY(joiner.collect());
    return joiner.finish();
  };
  Result<Membership> result = attempt();
  if (!result.ok()) return std::move(result).error().context(doing);
  return result;
}

namespace {

void send_one_hello(const UniqueId& id, const JoinRequest& request, const Error* why) {
  const Result<IdContent> content = read_id(id);
  const Result<const OwnLife*> own = own_life();
  if (!content.ok() || !own.ok()) return;
  const Patience patience{monotonic_ns() + kBestEffort_ns, {}};
  const Result<Fd> fd = connect_tcp(content->address, patience);
  if (!fd.ok()) return;
  Hello hello = hello_of(request, content->world, **own);
  if (why != nullptr) {
    hello.outcome.set(*why);
  } else {
    hello.is_discard = 1;
  }
  if (!send_all(fd->get(), bytes_of_message(hello), patience).ok()) return;
  Welcome welcome;  // wait for it, so that the server has read ours before we close
  receive_all(fd->get(), writable_bytes_of_message(welcome), patience).ignore();
}

}  // namespace

void report_failure(const UniqueId& id, const JoinRequest& request, const Error& why) {
  send_one_hello(id, request, &why);
}

void discard(const UniqueId& id) { send_one_hello(id, {}, nullptr); }

std::optional<link::DeadPeer> MemberLiveness::check_except(std::uint64_t ignored) {
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    const bool is_ignored = rank < 64 && (ignored >> rank & 1) != 0;
    if (is_ignored || members_[rank].is_alive()) continue;
    return link::DeadPeer{static_cast<int>(rank),
                          "died (process " + std::to_string(members_[rank].pid()) + " is gone)"};
  }
  return std::nullopt;
}

}  // namespace sabot::world
