// Jobs and the threads they run on.
#include "comm/life/job.hpp"

#include <condition_variable>
#include <mutex>

#include "base/log.hpp"
#include "comm/life/seat.hpp"

namespace sabot::comm::life {
namespace {

Status work_out(Job& job) {
  Result<std::optional<Seat>> seat = job.work();
  if (!seat.ok()) return std::move(seat).error();
  if (!job.fresh || !seat->has_value()) return {};
  heed_links(**seat, job.fresh->options, job.fresh.handle());
  return job.fresh->take_seat(std::move(**seat));
}

void take_back(Job& job) {
  if (job.fresh) job.fresh.retire(SlotState::kFailed);
  if (job.out != nullptr) *job.out = nullptr;
}

struct Behind {
  std::unique_ptr<Job> job;
};

void run_behind_main(void* raw) {
  const std::unique_ptr<Behind> behind(static_cast<Behind*>(raw));
  CommRef parent = behind->job->parent;
  run(*behind->job).ignore();  // the communicator remembers it
  if (parent) parent->jobs.fetch_sub(1);
}

// Several jobs that one caller waits for.
struct Party {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t running = 0;
};
struct Guest {
  Party* party;
  Job* job;
  Status* outcome;
};

void run_guest(void* raw) {
  const std::unique_ptr<Guest> guest(static_cast<Guest*>(raw));
  *guest->outcome = run(*guest->job);
  const std::lock_guard<std::mutex> lock(guest->party->mutex);
  --guest->party->running;
  guest->party->changed.notify_all();
}

}  // namespace

Status run(Job& job) {
  Status outcome = work_out(job);
  if (outcome.ok()) {
    const bool loud = job.fresh && job.fresh->options.verbosity >= Verbosity::kInfo;
    if (loud) {
      log::line("INFO " + std::string(job.function) + ": rank " +
                std::to_string(job.fresh->seat.rank) + " of " +
                std::to_string(job.fresh->seat.ranks) + " is ready");
    }
    return {};
  }
  Error error = std::move(outcome).error();
  if (job.fresh) job.fresh->fail(error);
  if (job.blocking) take_back(job);
  return error;
}

std::vector<Status> run_all(std::vector<std::unique_ptr<Job>> jobs) {
  std::vector<Status> outcomes(jobs.size());
  Party party;
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    auto guest = std::make_unique<Guest>(Guest{&party, jobs[i].get(), &outcomes[i]});
    {
      const std::lock_guard<std::mutex> lock(party.mutex);
      ++party.running;
    }
    Status started = spawn("a rank of a group", run_guest, guest.get());
    if (started.ok()) {
      guest.release();  // NOLINT: its thread owns it now
      continue;
    }
    give_up(*jobs[i], started.error());
    outcomes[i] = std::move(started);
    const std::lock_guard<std::mutex> lock(party.mutex);
    --party.running;
  }
  if (!jobs.empty()) outcomes[0] = run(*jobs[0]);
  std::unique_lock<std::mutex> lock(party.mutex);
  party.changed.wait(lock, [&party] { return party.running == 0; });
  return outcomes;
}

Status run_behind(std::unique_ptr<Job> job) {
  CommRef parent = job->parent;
  if (parent) parent->jobs.fetch_add(1);
  auto behind = std::make_unique<Behind>(Behind{std::move(job)});
  Status started = spawn("the creation of a communicator", run_behind_main, behind.get());
  if (started.ok()) {
    behind.release();  // NOLINT: its thread owns it now
    return {};
  }
  if (parent) parent->jobs.fetch_sub(1);
  give_up(*behind->job, started.error());
  return started;
}

void give_up(Job& job, const Error& why) {
  if (job.fresh) job.fresh->fail(why);
  take_back(job);
  if (job.give_up) job.give_up(why);
}

}  // namespace sabot::comm::life
