// The thread of the server: lock, socket, and one poll loop.
#include "launch/control/server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "launch/control/client_line.hpp"
#include "launch/control/endpoint.hpp"
#include "run/identity.hpp"

namespace sabot::launch::control {
namespace {

using Clock = ClientLine::Clock;

// How often a launcher looks whether the one that serves has ended; also how long the listener
// rests when the process is out of descriptors.
constexpr std::chrono::milliseconds kLookAgain{500};

bool is_allowed(int fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace

class Server::Service {
 public:
  Service(DeskFacts facts, run::ControlWriter writer, Fd stop)
      : facts_(std::move(facts)), writer_(std::move(writer)), stop_(std::move(stop)) {}

  // One try to become the one that serves; false: something is in the way that will not go.
  bool try_to_serve() {
    Result<std::optional<ServingLock>> lock = ServingLock::take(facts_.run_folder);
    if (lock.ok() && !lock->has_value()) return true;
    Result<Fd> listener = lock.ok() ? listen_in(facts_.run_folder) : Result<Fd>(lock.error());
    if (!listener.ok()) {
      log::line("this run cannot be controlled: " + listener.error().message());
      return false;
    }
    lock_.emplace(std::move(**lock));
    listener_ = std::move(listener).value();
    // Now, not earlier: whoever served until now may have added to the run.
    desk_.emplace(facts_, std::move(writer_));
    return true;
  }

  void begin() {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    thread_ = std::thread([this] { serve(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void end() {
    const std::uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    if (thread_.joinable()) thread_.join();
    if (lock_) remove_socket(facts_.run_folder);
  }

 private:
  void serve() {
    while (!desk_) {
      if (has_stopped_within(kLookAgain) || !try_to_serve()) return;
    }
    std::vector<pollfd> polled;
    while (wait(polled)) {
      const Clock::time_point now = Clock::now();
      for (std::size_t i = clients_.size(); i-- > 0;) {
        const bool is_due = polled[i].revents != 0 || now >= clients_[i].deadline();
        if (is_due && !clients_[i].step(answerer(), now))
          clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (polled[polled.size() - 2].revents != 0) accept_one(now);
    }
  }

  ClientLine::Answerer answerer() {
    return [this](std::string_view line) { return desk_->answer(line); };
  }

  bool has_stopped_within(std::chrono::milliseconds time) const {
    pollfd stop{stop_.get(), POLLIN, 0};
    return ::poll(&stop, 1, static_cast<int>(time.count())) > 0;
  }

  // Clients first, then the listener, then the word to stop; false: it came.
  bool wait(std::vector<pollfd>& polled) const {
    const Clock::time_point now = Clock::now();
    Clock::time_point until = now + std::chrono::seconds(60);
    polled.clear();
    for (const ClientLine& client : clients_) {
      polled.push_back({client.fd(), client.awaited(), 0});
      until = std::min(until, client.deadline());
    }
    const bool is_resting = now < rests_until_;
    if (is_resting) until = std::min(until, rests_until_);
    polled.push_back({is_resting ? -1 : listener_.get(), POLLIN, 0});
    polled.push_back({stop_.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(std::max<long>(left, 0))) < 0)
      for (pollfd& one : polled) one.revents = 0;
    return polled.back().revents == 0;
  }

  void accept_one(Clock::time_point now) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      // The listener stays readable while there are no descriptors left.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        rests_until_ = now + kLookAgain;
      return;
    }
    ClientLine client(std::move(socket), now);
    if (!is_allowed(client.fd()))
      client.dismiss("this run belongs to another user, and only they may control it");
    else if (clients_.size() >= kClientsMax)
      client.dismiss(std::to_string(kClientsMax) + " clients are connected already; try again");
    // A refusal is one small write; who is refused takes nobody's place.
    if (client.awaited() == POLLOUT) {
      client.step(answerer(), now);
      return;
    }
    clients_.push_back(std::move(client));
  }

  const DeskFacts facts_;
  run::ControlWriter writer_;
  const Fd stop_;
  std::optional<ServingLock> lock_;
  Fd listener_;
  std::optional<Desk> desk_;
  std::vector<ClientLine> clients_;
  Clock::time_point rests_until_{};
  std::thread thread_;
};

Server::Server(std::unique_ptr<Service> service) : service_(std::move(service)) {}

std::unique_ptr<Server> Server::start(const DeskFacts& facts) {
  Result<run::ControlWriter> writer =
      run::ControlWriter::open(facts.run_folder, names_of(facts.scenario));
  if (!writer.ok()) {
    // A run within a run may have faults of its own: the page is not for them.
    if (writer.error().code() != Code::kInvalidUsage)
      log::line("this run cannot be controlled: " + writer.error().message());
    return nullptr;
  }
  Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) {
    log::line("this run cannot be controlled: " + run::errno_text(errno));
    return nullptr;
  }
  auto service = std::make_unique<Service>(facts, std::move(writer).value(), std::move(stop));
  if (!service->try_to_serve()) return nullptr;
  service->begin();
  return std::unique_ptr<Server>(new Server(std::move(service)));
}

Server::~Server() { service_->end(); }

}  // namespace sabot::launch::control
