// One poll over keepers and signals.
#include "drill/pool.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <iterator>

namespace sabot::drill {
namespace {

constexpr int kWaitMs = 1000;

}  // namespace

Pool::Pool() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&taken, signal);
  ::sigprocmask(SIG_BLOCK, &taken, &before_);
  signals_ = Fd(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
}

Pool::~Pool() {
  commands_.clear();
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

Status Pool::start(std::size_t id, const Order& order) {
  commands_.push_back({id, SABOT_TRY(Kept::start(order))});
  return {};
}

void Pool::take_signals() {
  signalfd_siginfo event{};
  while (::read(signals_.get(), &event, sizeof event) == sizeof event) {
    if (signal_ != 0) continue;
    signal_ = static_cast<int>(event.ssi_signo);
    for (Command& command : commands_) command.kept.interrupt();
  }
}

std::vector<Pool::Ended> Pool::wait(int ms) {
  std::vector<pollfd> events{{signals_.get(), POLLIN, 0}};
  for (const Command& command : commands_) events.push_back({command.kept.descriptor(), POLLIN, 0});
  ::poll(events.data(), events.size(), ms);
  take_signals();
  std::vector<Ended> out;
  for (std::size_t i = commands_.size(); i-- > 0;) {
    if (events[i + 1].revents == 0 || !commands_[i].kept.take()) continue;
    out.push_back({commands_[i].id, commands_[i].kept.ending()});
    commands_.erase(commands_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return out;
}

Result<Ending> Pool::run(const Order& order) {
  SABOT_TRY(start(kOnly, order));
  for (;;)
    for (Ended& ended : wait(kWaitMs)) return std::move(ended.ending);
}

}  // namespace sabot::drill
