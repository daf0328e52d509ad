// Life and failure of a group.
#include "pytorch/group/group.hpp"

#include <unistd.h>

#include "pytorch/group/watchdog.hpp"
#include "pytorch/library.hpp"

namespace sabot::pytorch {
namespace {

const char* type_name(int type) { return c10::toString(static_cast<at::ScalarType>(type)); }

}  // namespace

std::shared_ptr<Group> Group::make(Member member, ncclComm_t comm, ncclComm_t beneath) {
  std::shared_ptr<Group> group(new Group(std::move(member), comm, beneath));
  watch(group);
  return group;
}

Group::Group(Member member, ncclComm_t comm, ncclComm_t beneath)
    : member_(std::move(member)),
      comm_(comm),
      beneath_(beneath),
      mailbox_(std::make_unique<Mailbox>(beneath, member_.rank, member_.size, type_name)),
      recorded_as_(Recorder::get().add_group(member_.group, member_.rank, member_.global_ranks)),
      timeout_ms_(member_.timeout.count()),
      pid_(::getpid()) {}

Group::~Group() {
  try {
    close();
  } catch (const std::exception&) {
    // Nobody is left to be told; shutdown() tells those who ask.
  }
}

cudaStream_t Group::stream() {
  const std::lock_guard<std::mutex> lock(stream_mutex_);
  if (stream_ == nullptr) check(library().stream_create(&stream_), comm_);
  return stream_;
}

void Group::begin(Flight& flight, const Request& request, bool is_p2p) {
  release_left();
  flight.type = request.type;
  flight.timeout = timeout_or(request.timeout);
  for (const at::Tensor& tensor : request.inputs) flight.elements_in += tensor.numel();
  for (const at::Tensor& tensor : request.outputs) flight.elements_out += tensor.numel();
  Recorder::Operation operation;
  operation.title = request.title;
  operation.is_p2p = is_p2p;
  operation.peer = request.peer;
  flight.sequence = is_p2p ? next_p2p() : next_collective();
  operation.p2p = messages_.load();
  operation.collective = collectives_.load();
  operation.timeout = flight.timeout;
  operation.inputs = request.inputs;
  operation.outputs = request.outputs;
  flight.row = Recorder::get().begin(recorded_as_, operation);
  flight.started = Clock::now();
  flights_.add(flight);
}

void Group::end(Flight& flight, bool succeeded) {
  flights_.remove(flight);
  Recorder::get().end(flight.row, succeeded);
}

void Group::check_usable() const {
  if (is_closed_.load()) [[unlikely]]
    throw_backend_error(why_closed());
}

std::string Group::why_closed() const {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  const std::string rank = std::to_string(member_.rank);
  if (!is_aborted_.load()) return "The process group was destroyed on rank " + rank;
  return "NCCL communicator was aborted on rank " + rank +
         ". Original reason for failure was: " + abort_reason_;
}

std::exception_ptr Group::explain(ncclResult_t code, const std::string& last_error,
                                  const Flight& flight, Style style, Place place) const {
  if (is_closed_.load()) return backend_error(why_closed());
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  if (flight.is_overdue && !timeout_text_.empty()) return backend_error(timeout_text_);
  return make_error(code, last_error, style, place);
}

std::exception_ptr Group::failure_of(const std::string& text) const {
  return backend_error(is_closed_.load() ? why_closed() : text);
}

void Group::write_recorder() { Recorder::get().write(member_.global_rank()); }

void Group::release_stream() {
  const std::lock_guard<std::mutex> lock(stream_mutex_);
  if (stream_ != nullptr) library().stream_destroy(stream_);
  stream_ = nullptr;
}

void Group::abort(const std::string& reason) {
  if (pid_ != ::getpid()) return;
  {
    const std::lock_guard<std::mutex> lock(failure_mutex_);
    if (is_closed_.load()) return;
    abort_reason_ = reason;
    is_aborted_.store(true);
    is_closed_.store(true);
  }
  mailbox_->abort(reason);
  library().CommAbort(comm_);
  library().beneath.CommAbort(beneath_);
  release_stream();
}

void Group::close() {
  // A forked child has no communicators to end: they are its parent's.
  if (pid_ != ::getpid() || is_closed_.load()) return;
  if (flights_.any()) {
    return abort("the process group was destroyed while operations were under way");
  }
  {
    const std::lock_guard<std::mutex> lock(failure_mutex_);
    if (is_closed_.exchange(true)) return;
  }
  mailbox_->close();
  const ncclResult_t destroyed = library().CommDestroy(comm_);
  const std::string why = destroyed == ncclSuccess ? "" : library().GetLastError(nullptr);
  library().beneath.CommDestroy(beneath_);
  release_stream();
  if (destroyed != ncclSuccess) throw_error(destroyed, why, Style::kBackendError, here());
}

// Ranks that have not entered the collective in which this rank waits.
std::string Group::laggards(int& culprit) const {
  std::uint64_t mine = 0;
  library().comm_entered(comm_, member_.rank, &mine);
  std::string text;
  for (int rank = 0; rank < member_.size; ++rank) {
    std::uint64_t theirs = 0;
    if (library().comm_entered(comm_, rank, &theirs) != ncclSuccess || theirs >= mine) continue;
    if (culprit < 0) culprit = rank;
    text += " Rank " + std::to_string(rank) + " is behind: it has entered " +
            std::to_string(theirs) + " collectives of this group, rank " +
            std::to_string(member_.rank) + " " + std::to_string(mine) + ".";
  }
  return text;
}

void Group::note_overdue(const Flight& flight, Clock::time_point now) {
  int culprit = -1;
  std::string text = timeout_text(member_.rank, flight, now);
  if (!::c10d::isP2POp(flight.type)) text += laggards(culprit);
  {
    const std::lock_guard<std::mutex> lock(failure_mutex_);
    if (timeout_text_.empty()) timeout_text_ = text;
  }
  library().comm_fail(comm_, culprit, text.c_str());
  library().comm_fail(beneath_, culprit, text.c_str());
}

void Group::record_failure() {
  ncclResult_t state = ncclSuccess;
  const bool failed = library().beneath.CommGetAsyncError(comm_, &state) == ncclSuccess &&
                      state != ncclSuccess && state != ncclInProgress;
  if (failed && !is_recorded_.exchange(true)) write_recorder();
}

void Group::inspect(Clock::time_point now) {
  if (is_closed_.load()) return;
  Flight overdue;
  while (flights_.take_overdue(now, overdue)) note_overdue(overdue, now);
  record_failure();
}

}  // namespace sabot::pytorch
