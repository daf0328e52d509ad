// Collecting and launching; see group.hpp.
#include "comm/group.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>

#include "abi/result_code.hpp"
#include "comm/estimate.hpp"
#include "comm/report.hpp"
#include "comm/stream.hpp"

namespace sabot::comm {

constinit thread_local int group_depth = 0;

namespace {

struct Group {
  const Process* owner = &process();
  std::vector<std::unique_ptr<life::Job>> jobs;
  std::vector<std::shared_ptr<Batch>> batches;
  Status failure;
};

Error opened_before_fork() {
  return Error(Code::kInvalidUsage,
               "the group was opened by the process that forked this one; open groups after fork");
}

void give_up_jobs(Group& group, const Error& why) {
  for (const auto& job : group.jobs) life::give_up(*job, why);
  group.jobs.clear();
}

// A forked child has one thread, hence one such group at most; kept in sight of a leak checker.
std::atomic<const Group*> forgotten{nullptr};

// The group of one thread, made when something is first put into it. In a forked child it holds
// what belongs to the parent; that is forgotten, since ending it would reach into the parent's
// communicators.
class OpenGroup {
 public:
  ~OpenGroup() {
    const std::unique_ptr<Group> left = take();
    if (left) give_up_jobs(*left, Error(Code::kInvalidUsage, "its thread ended inside a group"));
  }

  Group& get() {
    const bool inherited = forget_inherited();
    if (group_ == nullptr) group_ = std::make_unique<Group>();
    if (inherited) group_->failure = opened_before_fork();
    return *group_;
  }
  std::unique_ptr<Group> take() {
    if (!forget_inherited()) return std::move(group_);
    auto empty = std::make_unique<Group>();
    empty->failure = opened_before_fork();
    return empty;
  }

 private:
  bool forget_inherited() {
    if (group_ == nullptr || group_->owner == &process()) return false;
    forgotten.store(group_.release());  // never freed, see above
    return true;
  }

  std::unique_ptr<Group> group_;
};

OpenGroup& this_group() {
  static thread_local OpenGroup group;
  return group;
}

Error lonely_self_exchange(int rank) {
  return Error(Code::kInvalidUsage, "peer is this rank itself (" + std::to_string(rank) +
                                        "); issue its send and its recv in one group");
}

// Sends to itself and receives from itself must pair up, or they wait for ever.
Status check_self_exchange(Batch& batch) {
  const int rank = batch.comm().seat.rank;
  int open_sends = 0;
  const char* function = "";
  for (const Issued& issued : batch.operations()) {
    const host::Operation& operation = issued.checked.operation;
    if (operation.kind == host::Operation::Kind::kCollective || operation.peer != rank) continue;
    if (issued.checked.is_nothing) continue;
    open_sends += operation.kind == host::Operation::Kind::kSend ? 1 : -1;
    function = issued.function;
  }
  if (open_sends == 0) return {};
  return lonely_self_exchange(rank).context(function);
}

// Which stream drives which batch, which streams only wait for it, and what is left to the caller.
struct Distribution {
  std::map<cudaStream_t, Stream::Entry> entries;  // one order of streams for all callers
  std::vector<std::shared_ptr<Batch>> here;
  std::vector<std::shared_ptr<Batch>> awaited_here;
};

void distribute(const std::shared_ptr<Batch>& batch, Distribution& to) {
  std::vector<cudaStream_t> streams;
  bool immediate = false;
  for (const Issued& issued : batch->operations()) {
    if (is_immediate(issued.stream)) {
      immediate = true;
    } else if (std::find(streams.begin(), streams.end(), issued.stream) == streams.end()) {
      streams.push_back(issued.stream);
    }
  }
  if (streams.empty()) return to.here.push_back(batch);
  for (const cudaStream_t stream : streams) {
    Stream::Entry& entry = to.entries[stream];
    (stream == streams.front() ? entry.driven : entry.awaited).push_back(batch);
  }
  if (immediate) to.awaited_here.push_back(batch);
}

ncclResult_t run_jobs(const Options& options, std::vector<std::unique_ptr<life::Job>> jobs) {
  std::vector<std::unique_ptr<life::Job>> waited_for;
  ncclResult_t result = ncclSuccess;
  for (std::unique_ptr<life::Job>& job : jobs) {
    if (job->blocking) {
      waited_for.push_back(std::move(job));
      continue;
    }
    const Status started = life::run_behind(std::move(job));
    const ncclResult_t code =
        started.ok() ? ncclInProgress : abi::to_result(started.error().code());
    if (result == ncclSuccess || result == ncclInProgress) result = code;
  }
  std::vector<const char*> functions;
  for (const auto& job : waited_for) functions.push_back(job->function);
  const std::vector<Status> outcomes = life::run_all(std::move(waited_for));
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].ok()) continue;
    return report(options, functions[i], outcomes[i].error());
  }
  return result;
}

ncclResult_t enqueue_slowly(const Options& options, const CommRef& comm, cudaStream_t stream,
                            const DataCall& call) {
  const Status usable = comm->usable();
  if (!usable.ok()) return refuse(options, call.function, usable.error());
  Result<Checked> checked = check(*comm, call);
  if (!checked.ok()) return refuse(options, call.function, checked.error());
  if (!is_immediate(stream)) {
    const Result<StreamRef> known = enter_stream(stream);
    if (!known.ok()) return refuse(options, call.function, known.error());
  }
  Issued issued{call.function, std::move(*checked), stream};
  if (in_group()) {
    add_to_group(comm, std::move(issued));
    return ncclSuccess;
  }
  if (issued.checked.is_nothing) return ncclSuccess;
  if (call.peer == comm->seat.rank) {
    return report(options, call.function, lonely_self_exchange(call.peer));
  }
  if (is_immediate(stream)) {
    return report(options, call.function, run_now(*comm, issued.checked.ready()));
  }
  auto batch = std::make_shared<Batch>(comm);
  batch->operations().push_back(std::move(issued));
  const Status launched = launch({batch});
  if (launched.ok()) return ncclSuccess;
  return report(options, call.function, launched.error());
}

}  // namespace

void group_start() { ++group_depth; }

ncclResult_t group_end(const Options& options) {
  if (group_depth == 0) {
    return report(options, "ncclGroupEnd",
                  Error(Code::kInvalidUsage, "no group is open; call ncclGroupStart first"));
  }
  if (--group_depth > 0) return ncclSuccess;
  const std::unique_ptr<Group> group = this_group().take();
  if (group == nullptr) return ncclSuccess;
  if (!group->failure.ok()) {
    give_up_jobs(*group, group->failure.error());
    return report(options, "ncclGroupEnd", group->failure.error());
  }
  const ncclResult_t created = run_jobs(options, std::move(group->jobs));
  if (created != ncclSuccess && created != ncclInProgress) return created;
  const Status launched = launch(group->batches);
  if (!launched.ok()) return report(options, "ncclGroupEnd", launched.error());
  return created;
}

Result<float> group_simulate_end() {
  if (group_depth == 0) {
    return Error(Code::kInvalidUsage, "no group is open; call ncclGroupStart first");
  }
  if (--group_depth > 0) return 0.0F;
  const std::unique_ptr<Group> group = this_group().take();
  if (group == nullptr) return 0.0F;
  give_up_jobs(*group, Error(Code::kInvalidUsage, "the group was only simulated"));
  if (!group->failure.ok()) return Error(group->failure.error());
  float longest = 0;
  for (const auto& batch : group->batches) longest = std::max(longest, estimate_us(*batch));
  return longest;
}

void add_to_group(const CommRef& comm, Issued operation) {
  std::vector<std::shared_ptr<Batch>>& batches = this_group().get().batches;
  auto found = std::find_if(batches.begin(), batches.end(),
                            [&](const auto& batch) { return &batch->comm() == comm.get(); });
  if (found == batches.end()) found = batches.insert(found, std::make_shared<Batch>(comm));
  (*found)->operations().push_back(std::move(operation));
}

void add_to_group(std::unique_ptr<life::Job> job) {
  this_group().get().jobs.push_back(std::move(job));
}

ncclResult_t refuse(const Options& options, const char* function, const Error& error) {
  if (in_group() && this_group().get().failure.ok()) {
    this_group().get().failure = Error(error).context(function);
  }
  return report(options, function, error);
}

Status launch(const std::vector<std::shared_ptr<Batch>>& batches) {
  Distribution to;
  for (const auto& batch : batches) {
    SABOT_TRY(check_self_exchange(*batch));
    distribute(batch, to);
  }
  std::vector<StreamRef> streams;
  for (const auto& [handle, entry] : to.entries) streams.push_back(SABOT_TRY(enter_stream(handle)));
  for (const StreamRef& stream : streams) stream->reserve();
  {
    // Turns and places in streams are taken together, or a stream could wait for what stands
    // behind it in another stream.
    const std::lock_guard<std::mutex> lock(process().issue_mutex);
    for (const auto& batch : batches) batch->take_turn();
    auto stream = streams.begin();
    for (auto& [handle, entry] : to.entries) (*stream++)->put(std::move(entry));
  }
  drive(to.here);
  host::Waiter waiter(true);
  for (const auto& batch : to.awaited_here) {
    while (!batch->is_done()) waiter.pause();
  }
  to.here.insert(to.here.end(), to.awaited_here.begin(), to.awaited_here.end());
  for (const auto& batch : to.here) {
    if (!batch->failure().ok()) return Error(batch->failure().error());
  }
  return {};
}

ncclResult_t enqueue(const Options& options, ncclComm_t handle, cudaStream_t stream,
                     const DataCall& call) {
  const CommRef comm = enter(handle);
  if (!comm) return refuse(options, call.function, explain_handle(handle));
  host::Operation operation;
  const bool simple = group_depth == 0 && is_immediate(stream) &&
                      comm->phase.load() == Phase::kReady && check_quickly(*comm, call, operation);
  if (!simple) return enqueue_slowly(options, comm, stream, call);
  const Status outcome = run_now(*comm, operation);
  if (outcome.ok()) [[likely]]
    return ncclSuccess;
  return report(options, call.function, outcome.error());
}

ncclResult_t submit(const Options& options, std::unique_ptr<life::Job> job) {
  if (in_group()) {
    add_to_group(std::move(job));
    return ncclSuccess;
  }
  if (job->blocking) return report(options, job->function, life::run(*job));
  const char* function = job->function;
  const Status started = life::run_behind(std::move(job));
  return started.ok() ? ncclInProgress : report(options, function, started.error());
}

}  // namespace sabot::comm
