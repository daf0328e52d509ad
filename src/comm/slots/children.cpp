// Communicators from communicators: split, shrink, grow.
#include <algorithm>
#include <cstring>
#include <string>

#include "comm/group.hpp"
#include "comm/life/derive.hpp"
#include "comm/life/finish.hpp"
#include "comm/report.hpp"
#include "comm/slots/slots.hpp"

namespace sabot::comm::slots {
namespace {

using life::check_not_aborted;
using life::check_place;
using life::Job;
using life::meet;
using life::Place;
using life::report_absence;

struct Child {
  const char* function;
  CommRef parent;
  std::uint64_t number;  // of this step in the parent's life
  ncclComm_t* out;
  CommConfig config;
};

Error null_out() {
  return Error(Code::kInvalidArgument, "newcomm is NULL, must point to an ncclComm_t");
}

// A job for a child of parent; the caller adds the work.
Result<std::unique_ptr<Job>> job_for(const Options& options, const Child& child) {
  auto job = std::make_unique<Job>();
  job->function = child.function;
  job->parent = child.parent;
  job->out = child.out;
  job->blocking = child.config.blocking;
  job->fresh = SABOT_TRY(process().comms.add(std::make_unique<Comm>(options, child.config)));
  return job;
}

// Ends the waiting of a job when its child or its parent is aborted by the application.
std::function<Status()> interruption(const Job& job) {
  return [fresh = job.fresh ? job.fresh.get() : nullptr,
          parent = job.parent ? job.parent.get() : nullptr]() -> Status {
    if (fresh != nullptr) SABOT_TRY(check_not_aborted(*fresh));
    if (parent != nullptr) SABOT_TRY(check_not_aborted(*parent));
    return {};
  };
}

ncclResult_t submit_child(const Options& options, std::unique_ptr<Job> job) {
  if (job->out != nullptr) *job->out = job->fresh ? handle_of(job->fresh) : nullptr;
  return submit(options, std::move(job));
}

Status check_parent(const Comm& parent) {
  SABOT_TRY(parent.seated());
  const Phase phase = parent.phase.load();
  return phase == Phase::kReady || phase == Phase::kRevoked ? Status() : parent.usable();
}

Result<std::vector<int>> excluded_ranks(const Comm& parent, const int* list, int count) {
  if (list == nullptr || count < 1) {
    return Error(Code::kInvalidArgument,
                 list == nullptr
                     ? "excludeRanksList is NULL"
                     : "excludeRanksCount is " + std::to_string(count) + ", must be at least 1");
  }
  std::vector<int> excluded(list, list + count);
  for (int i = 0; i < count; ++i) {
    const int rank = list[i];
    const std::string entry =
        "excludeRanksList[" + std::to_string(i) + "] is " + std::to_string(rank);
    if (rank < 0 || rank >= parent.seat.ranks) {
      return Error(Code::kInvalidArgument, entry + ", must be a rank of the communicator: 0 to " +
                                               std::to_string(parent.seat.ranks - 1));
    }
    if (rank == parent.seat.rank) {
      return Error(Code::kInvalidArgument,
                   entry + ", which is this rank; a rank that is left out must not call");
    }
  }
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  return excluded;
}

std::optional<world::UniqueId> copy_of(const ncclUniqueId* id) {
  if (id == nullptr) return std::nullopt;
  world::UniqueId copy;
  std::memcpy(copy.bytes.data(), id->internal, copy.bytes.size());
  return copy;
}

// A rank that is new joins like any other, at the id.
Result<std::unique_ptr<Job>> grow_as_new(const Options& options, const Child& child, int ranks,
                                         int rank, const ncclUniqueId* raw) {
  const std::optional<world::UniqueId> id = copy_of(raw);
  if (!id) return Error(Code::kInvalidArgument, "uniqueId is NULL, and so is comm");
  SABOT_TRY(check_place(rank, ranks));
  SABOT_TRY(world::read_id(*id));
  std::unique_ptr<Job> job = SABOT_TRY(job_for(options, child));
  Place place{rank, ranks, interruption(*job)};
  job->work = [&options, id = *id, place]() -> Result<std::optional<Seat>> {
    return std::optional<Seat>(SABOT_TRY(meet(options, id, place)));
  };
  job->give_up = [&options, id = *id, rank, ranks](const Error& why) {
    report_absence(options, id, rank, ranks, why);
  };
  return job;
}

Result<std::unique_ptr<Job>> grow_existing(const Options& options, const Child& child, int ranks,
                                           int rank, const ncclUniqueId* raw) {
  Comm& parent = *child.parent;
  SABOT_TRY(check_parent(parent));
  if (rank != -1) {
    return Error(Code::kInvalidArgument,
                 "rank is " + std::to_string(rank) + ", must be -1 on ranks that exist already");
  }
  if (ranks <= parent.seat.ranks) {
    return Error(Code::kInvalidArgument, "nRanks is " + std::to_string(ranks) +
                                             ", must be more than the " +
                                             std::to_string(parent.seat.ranks) + " that exist");
  }
  SABOT_TRY(check_place(parent.seat.rank, ranks));
  std::unique_ptr<Job> job = SABOT_TRY(job_for(options, child));
  job->work = [&parent, number = child.number, ranks, id = copy_of(raw),
               stop = interruption(*job)]() -> Result<std::optional<Seat>> {
    Result<Seat> seat = life::grow({parent, number, stop}, ranks, id);
    {
      const std::lock_guard<std::mutex> lock(parent.mutex);
      parent.grow_id.reset();
    }
    if (!seat.ok()) return std::move(seat).error();
    return std::optional<Seat>(std::move(*seat));
  };
  return job;
}

}  // namespace

ncclResult_t CommSplit(void* self, abi::Call*, ncclComm_t handle, int color, int key,
                       ncclComm_t* newcomm, ncclConfig_t* config) {
  const Options& options = options_of(self);
  Child child{"ncclCommSplit", enter(handle), 0, newcomm, {}};
  if (!child.parent) return refuse(options, child.function, explain_handle(handle));
  Comm& parent = *child.parent;
  const Status fit = check_parent(parent);
  if (!fit.ok()) return refuse(options, child.function, fit.error());
  child.number = parent.children.fetch_add(1);
  const auto prepare = [&]() -> Result<std::unique_ptr<Job>> {
    if (newcomm == nullptr) return null_out();
    if (color < NCCL_SPLIT_NOCOLOR) {
      return Error(Code::kInvalidArgument,
                   "color is " + std::to_string(color) +
                       ", must not be negative, or NCCL_SPLIT_NOCOLOR (-1)");
    }
    child.config = SABOT_TRY(read_config(config, parent.config));
    std::unique_ptr<Job> job = SABOT_TRY(job_for(options, child));
    if (color == NCCL_SPLIT_NOCOLOR) {
      job->fresh.retire(SlotState::kFailed);
      job->fresh.reset();
    }
    job->work = [&parent, number = child.number, color, key, stop = interruption(*job)] {
      return life::split({parent, number, stop}, color, key);
    };
    job->give_up = [&parent, number = child.number](const Error& why) {
      life::report_split_failure({parent, number, {}}, why);
    };
    return job;
  };
  Result<std::unique_ptr<Job>> job = prepare();
  if (job.ok()) return submit_child(options, std::move(*job));
  life::report_split_failure({parent, child.number, {}}, job.error());
  return refuse(options, child.function, job.error());
}

ncclResult_t CommShrink(void* self, abi::Call*, ncclComm_t handle, int* excludeRanksList,
                        int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config,
                        int shrinkFlags) {
  const Options& options = options_of(self);
  Child child{"ncclCommShrink", enter(handle), 0, newcomm, {}};
  if (!child.parent) return refuse(options, child.function, explain_handle(handle));
  Comm& parent = *child.parent;
  const auto prepare = [&]() -> Result<std::unique_ptr<Job>> {
    SABOT_TRY(check_parent(parent));
    if (newcomm == nullptr) return null_out();
    if (shrinkFlags != NCCL_SHRINK_DEFAULT && shrinkFlags != NCCL_SHRINK_ABORT) {
      return Error(Code::kInvalidArgument, "shrinkFlags is " + std::to_string(shrinkFlags) +
                                               ", must be NCCL_SHRINK_DEFAULT (0) or "
                                               "NCCL_SHRINK_ABORT (1)");
    }
    std::vector<int> excluded =
        SABOT_TRY(excluded_ranks(parent, excludeRanksList, excludeRanksCount));
    child.config = SABOT_TRY(read_config(config, parent.config));
    child.number = parent.children.fetch_add(1);
    std::unique_ptr<Job> job = SABOT_TRY(job_for(options, child));
    job->work = [&parent, number = child.number, excluded = std::move(excluded), shrinkFlags,
                 stop = interruption(*job)]() -> Result<std::optional<Seat>> {
      if (shrinkFlags == NCCL_SHRINK_ABORT) life::stop_for_shrink(parent);
      return std::optional<Seat>(SABOT_TRY(life::shrink({parent, number, stop}, excluded)));
    };
    return job;
  };
  Result<std::unique_ptr<Job>> job = prepare();
  if (job.ok()) return submit_child(options, std::move(*job));
  return refuse(options, child.function, job.error());
}

ncclResult_t CommGetUniqueId(void* self, abi::Call*, ncclComm_t handle, ncclUniqueId* uniqueId) {
  const Options& options = options_of(self);
  const auto make = [&]() -> Status {
    const CommRef comm = enter(handle);
    if (!comm) return explain_handle(handle);
    SABOT_TRY(check_parent(*comm));
    if (uniqueId == nullptr) return Error(Code::kInvalidArgument, "uniqueId is NULL");
    const std::lock_guard<std::mutex> lock(comm->mutex);
    if (comm->grow_id) {
      return Error(
          Code::kInvalidUsage,
          "the id of an earlier call has not been used yet; pass it to ncclCommGrow first");
    }
    const world::UniqueId id = SABOT_TRY(world::open_rendezvous(life::serve_options(options)));
    std::memcpy(uniqueId->internal, id.bytes.data(), id.bytes.size());
    comm->grow_id = *uniqueId;
    return {};
  };
  return report(options, "ncclCommGetUniqueId", make());
}

ncclResult_t CommGrow(void* self, abi::Call*, ncclComm_t handle, int nRanks,
                      const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
                      ncclConfig_t* config) {
  const Options& options = options_of(self);
  Child child{"ncclCommGrow", {}, 0, newcomm, {}};
  if (handle != nullptr) {
    child.parent = enter(handle);
    if (!child.parent) return refuse(options, child.function, explain_handle(handle));
  }
  const auto prepare = [&]() -> Result<std::unique_ptr<Job>> {
    if (newcomm == nullptr) return null_out();
    const bool is_new = !child.parent;
    child.config = SABOT_TRY(read_config(config, is_new ? CommConfig() : child.parent->config));
    if (is_new) return grow_as_new(options, child, nRanks, rank, uniqueId);
    child.number = child.parent->children.fetch_add(1);
    return grow_existing(options, child, nRanks, rank, uniqueId);
  };
  Result<std::unique_ptr<Job>> job = prepare();
  if (job.ok()) return submit_child(options, std::move(*job));
  return refuse(options, child.function, job.error());
}

}  // namespace sabot::comm::slots
