// Making communicators from unique ids, and how they end.
#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "comm/group.hpp"
#include "comm/life/finish.hpp"
#include "comm/life/seat.hpp"
#include "comm/report.hpp"
#include "comm/slots/slots.hpp"

namespace sabot::comm::slots {
namespace {

using life::Job;
using life::Place;

world::UniqueId id_of(const ncclUniqueId& raw) {
  world::UniqueId id;
  std::memcpy(id.bytes.data(), raw.internal, id.bytes.size());
  return id;
}

struct InitCall {
  const char* function;
  ncclComm_t* out;
  int ranks;
  int rank;
  const ncclConfig_t* config;
};

Result<CommConfig> check_init(const InitCall& call, const world::UniqueId& id) {
  if (call.out == nullptr) {
    return Error(Code::kInvalidArgument, "comm is NULL, must point to an ncclComm_t");
  }
  SABOT_TRY(life::check_place(call.rank, call.ranks));
  SABOT_TRY(world::read_id(id));
  return read_config(call.config, CommConfig());
}

ncclResult_t init_rank(const Options& options, const InitCall& call, const world::UniqueId& id) {
  const auto prepare = [&]() -> Result<std::unique_ptr<Job>> {
    CommConfig config = SABOT_TRY(check_init(call, id));
    auto job = std::make_unique<Job>();
    job->function = call.function;
    job->out = call.out;
    job->blocking = config.blocking;
    job->fresh = SABOT_TRY(process().comms.add(std::make_unique<Comm>(options, std::move(config))));
    Place place;
    place.rank = call.rank;
    place.ranks = call.ranks;
    place.interruption = [comm = job->fresh.get()] { return life::check_not_aborted(*comm); };
    job->work = [&options, id, place]() -> Result<std::optional<Seat>> {
      return std::optional<Seat>(SABOT_TRY(life::meet(options, id, place)));
    };
    job->give_up = [&options, id, rank = call.rank, ranks = call.ranks](const Error& why) {
      life::report_absence(options, id, rank, ranks, why);
    };
    return job;
  };
  Result<std::unique_ptr<Job>> job = prepare();
  if (!job.ok()) {
    if (call.out != nullptr) *call.out = nullptr;
    life::report_absence(options, id, call.rank, call.ranks, job.error());
    return refuse(options, call.function, job.error());
  }
  *call.out = handle_of((*job)->fresh);
  return submit(options, std::move(*job));
}

Status check_devices(const ncclComm_t* comms, int count, const int* devices) {
  if (comms == nullptr) {
    return Error(Code::kInvalidArgument, "comm is NULL, must point to ndev handles");
  }
  if (count < 1 || count > link::kRanksMax) {
    return Error(Code::kInvalidArgument, "ndev is " + std::to_string(count) + ", must be 1 to " +
                                             std::to_string(link::kRanksMax));
  }
  std::set<int> seen;
  for (int i = 0; devices != nullptr && i < count; ++i) {
    const std::string entry = "devlist[" + std::to_string(i) + "] is " + std::to_string(devices[i]);
    if (devices[i] < 0) return Error(Code::kInvalidArgument, entry + ", must not be negative");
    if (!seen.insert(devices[i]).second) {
      return Error(Code::kInvalidUsage, entry + ", which stands there twice");
    }
  }
  return {};
}

}  // namespace

ncclResult_t GetUniqueId(void* self, abi::Call*, ncclUniqueId* uniqueId) {
  const Options& options = options_of(self);
  const auto make = [&]() -> Status {
    if (uniqueId == nullptr) return Error(Code::kInvalidArgument, "uniqueId is NULL");
    const world::UniqueId id = SABOT_TRY(world::open_rendezvous(life::serve_options(options)));
    std::memcpy(uniqueId->internal, id.bytes.data(), id.bytes.size());
    return {};
  };
  return report(options, "ncclGetUniqueId", make());
}

ncclResult_t CommInitRank(void* self, abi::Call*, ncclComm_t* comm, int nranks, ncclUniqueId commId,
                          int rank) {
  return init_rank(options_of(self), {"ncclCommInitRank", comm, nranks, rank, nullptr},
                   id_of(commId));
}

ncclResult_t CommInitRankConfig(void* self, abi::Call*, ncclComm_t* comm, int nranks,
                                ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return init_rank(options_of(self), {"ncclCommInitRankConfig", comm, nranks, rank, config},
                   id_of(commId));
}

ncclResult_t CommInitRankScalable(void* self, abi::Call*, ncclComm_t* newcomm, int nranks,
                                  int myrank, int nId, ncclUniqueId* commIds,
                                  ncclConfig_t* config) {
  constexpr const char* kName = "ncclCommInitRankScalable";
  const Options& options = options_of(self);
  if (commIds == nullptr || nId < 1 || nId > nranks) {
    return refuse(
        options, kName,
        Error(Code::kInvalidArgument, commIds == nullptr ? "commIds is NULL"
                                                         : "nId is " + std::to_string(nId) +
                                                               ", must be 1 to nranks, which is " +
                                                               std::to_string(nranks)));
  }
  // One meeting place serves all ranks of a machine; rank 0 closes the others.
  for (int i = 1; myrank == 0 && i < nId; ++i) world::discard(id_of(commIds[i]));
  return init_rank(options, {kName, newcomm, nranks, myrank, config}, id_of(commIds[0]));
}

ncclResult_t CommInitAll(void* self, abi::Call*, ncclComm_t* comm, int ndev, const int* devlist) {
  const Options& options = options_of(self);
  const auto make = [&]() -> Status {
    SABOT_TRY(check_devices(comm, ndev, devlist));
    std::vector<Seat> seats = SABOT_TRY(life::meet_within_process(ndev));
    std::vector<CommRef> fresh;
    for (int rank = 0; rank < ndev; ++rank) {
      auto body = std::make_unique<Comm>(options, CommConfig());
      body->device = devlist == nullptr ? rank : devlist[rank];
      SABOT_TRY(body->take_seat(std::move(seats[static_cast<std::size_t>(rank)])));
      Result<CommRef> added = process().comms.add(std::move(body));
      if (!added.ok()) {
        for (CommRef& earlier : fresh) earlier.retire(SlotState::kFailed);
        return std::move(added).error();
      }
      life::heed_links((*added)->seat, options, added->handle());
      fresh.push_back(std::move(*added));
    }
    for (std::size_t i = 0; i < fresh.size(); ++i) comm[i] = handle_of(fresh[i]);
    return {};
  };
  return report(options, "ncclCommInitAll", make());
}

ncclResult_t CommFinalize(void* self, abi::Call*, ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;  // as NCCL: there is nothing to do
  constexpr const char* kName = "ncclCommFinalize";
  const Options& options = options_of(self);
  const CommRef comm = enter(handle);
  if (!comm) return refuse(options, kName, explain_handle(handle));
  const Status begun = life::begin_finalize(*comm);
  if (!begun.ok()) return refuse(options, kName, begun.error());
  if (comm->config.blocking) return report(options, kName, life::end_finalize(*comm));
  const Status started = life::finalize_behind(comm);
  return started.ok() ? ncclInProgress : report(options, kName, started.error());
}

ncclResult_t CommDestroy(void* self, abi::Call*, ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;  // as NCCL: there is nothing to do
  const Options& options = options_of(self);
  CommRef comm = enter(handle);
  if (!comm) return refuse(options, "ncclCommDestroy", explain_handle(handle));
  return report(options, "ncclCommDestroy", life::destroy(comm));
}

ncclResult_t CommAbort(void* self, abi::Call*, ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;  // as NCCL: there is nothing to do
  CommRef comm = enter(handle);
  if (!comm) return refuse(options_of(self), "ncclCommAbort", explain_handle(handle));
  life::abort(comm);
  return ncclSuccess;
}

ncclResult_t CommRevoke(void* self, abi::Call*, ncclComm_t handle, int revokeFlags) {
  constexpr const char* kName = "ncclCommRevoke";
  const Options& options = options_of(self);
  const CommRef comm = enter(handle);
  if (!comm) return refuse(options, kName, explain_handle(handle));
  if (revokeFlags != NCCL_REVOKE_DEFAULT) {
    return refuse(options, kName,
                  Error(Code::kInvalidArgument, "revokeFlags is " + std::to_string(revokeFlags) +
                                                    ", must be NCCL_REVOKE_DEFAULT (0)"));
  }
  const Status revoked = life::revoke(comm);
  return revoked.ok() ? ncclSuccess : refuse(options, kName, revoked.error());
}

ncclResult_t CommGetAsyncError(void* self, abi::Call*, ncclComm_t handle,
                               ncclResult_t* asyncError) {
  constexpr const char* kName = "ncclCommGetAsyncError";
  const CommRef comm = enter(handle);
  if (!comm) return report(options_of(self), kName, explain_handle(handle));
  if (asyncError == nullptr) {
    return report(options_of(self), kName, Error(Code::kInvalidArgument, "asyncError is NULL"));
  }
  const Status now = life::async_state(*comm);
  if (now.ok()) {
    *asyncError = ncclSuccess;
  } else if (now.error().code() == Code::kInProgress) {
    *asyncError = ncclInProgress;
  } else {
    *asyncError = remember(kName, now.error());
  }
  return ncclSuccess;
}

}  // namespace sabot::comm::slots
