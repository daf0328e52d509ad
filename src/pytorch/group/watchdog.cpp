// The thread wakes ten times a second, as torch's own does, and touches nothing but atomics and one
// uncontended lock of each group. It is never joined: the process may end at any time.
#include "pytorch/group/watchdog.hpp"

#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "pytorch/group/group.hpp"
#include "pytorch/thread.hpp"

namespace sabot::pytorch {
namespace {

constexpr std::chrono::milliseconds kPeriod{100};

struct Watched {
  std::mutex mutex;
  std::vector<std::weak_ptr<Group>> groups;

  std::vector<std::shared_ptr<Group>> alive() {
    const std::lock_guard<std::mutex> lock(mutex);
    std::vector<std::shared_ptr<Group>> found;
    std::erase_if(groups, [&found](const std::weak_ptr<Group>& entry) {
      std::shared_ptr<Group> group = entry.lock();
      if (group != nullptr) found.push_back(std::move(group));
      return group == nullptr && entry.expired();
    });
    return found;
  }
};

std::mutex mutex;
Watched* watched = nullptr;  // of this process; never freed
pid_t owner = 0;

void look_around(Watched& groups) {
  for (;;) {
    std::this_thread::sleep_for(kPeriod);
    const Clock::time_point now = Clock::now();
    for (const auto& group : groups.alive()) group->inspect(now);
  }
}

}  // namespace

void watch(const std::shared_ptr<Group>& group) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (watched == nullptr || owner != ::getpid()) {
    watched = new Watched();  // a forked child leaves its parent's behind
    owner = ::getpid();
    if (!start_thread("sabot-watchdog", [of = watched] { look_around(*of); })) {
      throw_backend_error("sabot: no thread could be started to watch process groups");
    }
  }
  const std::lock_guard<std::mutex> of_groups(watched->mutex);
  watched->groups.push_back(group);
}

}  // namespace sabot::pytorch
