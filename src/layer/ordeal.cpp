// Moments of a call under its faults; see ordeal.hpp.
#include "layer/ordeal.hpp"

#include "abi/names.hpp"
#include "layer/crash.hpp"
#include "run/identity.hpp"

namespace sabot::layer {
namespace {

using scenario::ActionKind;
using scenario::Moment;

bool is_wait(const Firing& firing) {
  return firing.act.kind == ActionKind::kDelay || firing.act.kind == ActionKind::kHang;
}

bool is_crash(const Firing& firing, Moment moment) {
  return firing.act.kind == ActionKind::kCrash && firing.act.moment == moment;
}

}  // namespace

Ordeal::Ordeal(const Means& means, const abi::Call& call, const Firings& firings)
    : means_(means), call_(call), firings_(firings) {}

bool Ordeal::is_immediate() const {
  return streams() != nullptr && abi::info(call_.function).has_stream &&
         streams()->is_immediate(call_);
}

// A caller that executes its calls by itself has streams of its own, if any.
bool Ordeal::holds_caller(const Firing& firing) const {
  return call_.lane == abi::Lane::kAnnounced || scenario::acts_on_host(firing.act, call_.function);
}

// Whether the library is asked at all.
bool Ordeal::is_made() const {
  const bool is_answered =
      replacement_ != nullptr && (replacement_->act.kind == ActionKind::kExhaust ||
                                  replacement_->act.moment == Moment::kBefore);
  return !is_answered && !is_left_out_;
}

bool Ordeal::enter() {
  for (const Firing& firing : firings_)
    if (is_crash(firing, Moment::kBefore)) crash(firing.act);
  for (const Firing& firing : firings_)
    if (is_wait(firing) && holds_caller(firing) && !wait(firing)) return false;
  for (const Firing& firing : firings_) replace(firing);
  for (const Firing& firing : firings_) prepare(firing);
  if (!is_immediate()) corrupt(true);
  return true;
}

bool Ordeal::begin_work() {
  if (!is_immediate()) return true;
  for (const Firing& firing : firings_)
    if (is_wait(firing) && !holds_caller(firing) && !wait(firing)) return false;
  corrupt(true);
  return true;
}

// Two faults may have met in one element: what was changed last is put back first.
void Ordeal::end_work(bool is_made) {
  for (auto it = corruptions_.rbegin(); it != corruptions_.rend(); ++it) {
    if (it->undo == nullptr) continue;
    const Status restored = streams()->restore(call_, std::move(it->undo));
    if (!restored.ok()) refuse(*it->firing, restored.error().message());
  }
  if (is_made) corrupt(false);
}

void Ordeal::leave(bool is_made) {
  if (latch_ != nullptr && (is_made || is_left_out_)) {
    const std::uint64_t due_ns = run::now().monotonic_ns + latch_->act.duration_ns;
    const auto code = static_cast<ncclResult_t>(latch_->act.result);
    if (!means_.async_errors.latch(call_.comm, code, due_ns, text_of_latch_))
      refuse(*latch_, "too many communicators have an asynchronous error already");
  }
  for (const Firing& firing : firings_)
    if (is_crash(firing, Moment::kAfter)) crash(firing.act);
}

bool Ordeal::wait(const Firing& firing) {
  const std::uint64_t limit_ns = scenario::drawn_duration_ns(firing.act, firing.bits);
  if (limit_ns == 0 && firing.act.kind == ActionKind::kDelay) return true;
  stays_.push_back(std::make_unique<Holds::Stay>(means_.holds, call_, firing.fault, limit_ns));
  if (!stays_.back()->stay()) return false;
  stays_.pop_back();  // from here on it is a call like any: nobody waits for it to leave
  return true;
}

// What the call returns, or is called with, instead.
void Ordeal::replace(const Firing& firing) {
  switch (firing.act.kind) {
    case ActionKind::kError:
    case ActionKind::kExhaust:
      replacement_ = &firing;
      text_of_replacement_ = firing.text;
      return;
    case ActionKind::kSkip:
      if (abi::info(call_.function).kind != abi::Kind::group) return void(is_left_out_ = true);
      return refuse(firing,
                    "a group is not left out by leaving out what opens or closes it; skip "
                    "its calls");
    case ActionKind::kMismatch: return mismatch(firing);
    default: return;
  }
}

// Asks the stream by itself: Call::captured is filled for triggers that need it only.
void Ordeal::mismatch(const Firing& firing) {
  if (call_.lane == abi::Lane::kAnnounced)
    return refuse(firing, "the caller executes this call by itself, with its own arguments");
  MismatchSetting setting = means_.setting(call_);
  if (streams() != nullptr && abi::info(call_.function).has_stream) {
    const Result<bool> captured = streams()->captured(call_.stream);
    setting.is_captured = captured.ok() && *captured;
  }
  Result<Mismatched> other = mismatch_of(firing.act, call_, setting);
  if (!other.ok()) return refuse(firing, other.error().message());
  mismatched_ = *std::move(other);
}

// What is put in front of the work, or kept for later.
void Ordeal::prepare(const Firing& firing) {
  switch (firing.act.kind) {
    case ActionKind::kDelay:
    case ActionKind::kHang: {
      if (holds_caller(firing)) return;
      if (is_immediate()) return;
      const std::uint64_t limit_ns = scenario::drawn_duration_ns(firing.act, firing.bits);
      if (limit_ns == 0 && firing.act.kind == ActionKind::kDelay) return;
      const Status held = hold_stream(firing, limit_ns);
      if (!held.ok()) refuse(firing, held.error().message());
      return;
    }
    case ActionKind::kAsyncError: return latch(firing);
    case ActionKind::kCorrupt: return plan_corruption(firing);
    case ActionKind::kLink: return apply_link(firing);
    default: return;
  }
}

Status Ordeal::hold_stream(const Firing& firing, std::uint64_t limit_ns) {
  StreamEffects* const effects = streams();
  if (effects == nullptr)
    return Error(Code::kUnsupported, "nothing of Sabot's reaches the stream of this call");
  Hold::Word word = SABOT_TRY(effects->make_word(call_));
  const auto hold = means_.holds.add(std::move(word), call_, firing.fault, limit_ns);
  Status put = effects->hold(call_, hold);
  if (!put.ok()) means_.holds.drop(hold);
  return put;
}

// As after a real network error: the work does not end, so its stream is held until the
// communicator ends. Where no stream can be held, the work is not begun.
void Ordeal::latch(const Firing& firing) {
  if (call_.comm == nullptr) return refuse(firing, "the call has no communicator yet");
  const bool has_work = abi::info(call_.function).has_stream && call_.lane != abi::Lane::kAnnounced;
  if (has_work && is_made()) {
    if (is_immediate() || streams() == nullptr) {
      is_left_out_ = true;
    } else if (const Status held = hold_stream(firing, 0); !held.ok()) {
      return refuse(firing, held.error().message());
    }
  }
  latch_ = &firing;
  text_of_latch_ = firing.text;
}

void Ordeal::apply_link(const Firing& firing) {
  LinkEffects* const links = means_.links[static_cast<std::size_t>(call_.lane)];
  if (links == nullptr)
    return refuse(firing, "nothing of Sabot's carries the bytes of this communicator");
  const Status applied = links->apply(firing.act, call_, firing.fault);
  if (!applied.ok()) return refuse(firing, applied.error().message());
  means_.holds.note(call_, firing.fault, [links, fault = firing.fault] { links->release(fault); });
}

void Ordeal::plan_corruption(const Firing& firing) {
  if (streams() == nullptr)
    return refuse(firing, "nothing of Sabot's reaches the memory of this call");
  if (call_.lane == abi::Lane::kAnnounced && !call_.host_memory)
    return refuse(firing,
                  "the caller executes this call by itself, and its buffers are not known "
                  "to be plain memory of this process");
  if (!is_made()) return refuse(firing, "another fault takes the place of the call");
  if (call_.nonblocking && means_.is_real[static_cast<std::size_t>(call_.lane)])
    return refuse(firing,
                  "a communicator with blocking = 0 puts its work on the stream at a time "
                  "that nobody is told");
  const Result<CorruptionPlan> plan = corruption_of(firing.act, firing.bits, call_);
  if (!plan.ok()) return refuse(firing, plan.error().message());
  corruptions_.push_back({&firing, *plan, nullptr});
}

void Ordeal::corrupt(bool at_entry) {
  for (Corruption& corruption : corruptions_) {
    if (corruption.plan.at_entry != at_entry) continue;
    Result<std::unique_ptr<Undo>> undo = streams()->corrupt(call_, corruption.plan);
    if (!undo.ok()) {
      refuse(*corruption.firing, undo.error().message());
      continue;
    }
    corruption.undo = *std::move(undo);
  }
}

}  // namespace sabot::layer
