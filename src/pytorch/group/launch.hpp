// How an operation runs: at once in the calling thread, or behind it in the group's stream.
//
// `issue(comm, stream)` makes the NCCL calls; the null stream runs them at once. `after()` finishes
// what they produced (copies out of a staging tensor) and runs where the operation ended.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "pytorch/group/group.hpp"
#include "pytorch/library.hpp"

namespace sabot::pytorch {

using After = std::function<void()>;
using WorkRef = c10::intrusive_ptr<::c10d::Work>;

// An asynchronous operation until its stream has run it; owns itself.
struct Pending {
  std::shared_ptr<Group> group;
  c10::intrusive_ptr<SabotWork> work;
  After after;
  Flight flight;
  Style style;
  Place place;

  static void complete(void* raw, ncclResult_t outcome, const char* text);
};

// Puts the completion behind what was issued before. Precondition: the group's issue mutex.
void follow(std::unique_ptr<Pending> pending, cudaStream_t stream);

// Throws why an operation failed that was issued in this thread.
[[noreturn]] void throw_failed(Group& group, ncclResult_t code, const Flight& flight, Style style,
                               Place place);

template <typename Issue>
WorkRef run_now(Group& group, const Request& request, Issue& issue, const After& after) {
  auto work = c10::make_intrusive<SabotWork>(group.member().rank, request.type, request.title,
                                             group.collectives() + 1, request.outputs);
  Flight flight;
  group.begin(flight, request, false);
  const ncclResult_t code = issue(group.comm(), nullptr);
  group.end(flight, is_success(code));
  if (!is_success(code)) [[unlikely]]
    throw_failed(group, code, flight, request.style, request.place);
  if (after) after();
  work->end();
  return work;
}

template <typename Issue>
WorkRef run_behind(Group& group, const Request& request, Issue& issue, After after) {
  const cudaStream_t stream = group.stream();
  auto pending = std::make_unique<Pending>();
  pending->group = group.shared_from_this();
  pending->after = std::move(after);
  pending->style = request.style;
  pending->place = request.place;
  const std::lock_guard<std::mutex> lock(group.issue_mutex());
  group.begin(pending->flight, request, false);
  pending->work = c10::make_intrusive<SabotWork>(group.member().rank, request.type, request.title,
                                                 pending->flight.sequence, request.outputs);
  pending->work->keep(request.inputs);
  const Flight flight = pending->flight;
  const c10::intrusive_ptr<SabotWork> work = pending->work;
  const ncclResult_t code = issue(group.comm(), stream);
  // A call that failed may have queued its operation all the same; buffers are kept until it ran.
  follow(std::move(pending), stream);
  if (!is_success(code)) [[unlikely]]
    throw_failed(group, code, flight, request.style, request.place);
  return work;
}

template <typename Issue>
WorkRef launch(Group& group, const Request& request, Issue issue, After after = {}) {
  group.check_usable();
  return request.is_async ? run_behind(group, request, issue, std::move(after))
                          : run_now(group, request, issue, after);
}

// NCCL's group around several calls. Its end is reached whatever fails within.
template <typename Calls>
ncclResult_t grouped(Calls calls) {
  const ncclResult_t opened = library().GroupStart();
  if (!is_success(opened)) return opened;
  const ncclResult_t within = calls();
  const ncclResult_t ended = library().GroupEnd();
  return is_success(within) ? ended : within;
}

}  // namespace sabot::pytorch
