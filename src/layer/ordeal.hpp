// What the faults that fired on one call do to it, from its entry to the end of its work.
//
// A call has up to four moments: it is entered; its work begins (in a group, for work that the
// engine does in the calling thread, only at the outermost GroupEnd); its work is enqueued or done;
// it is left. The firings of one call act together in a fixed order: crash before, waits of the
// caller, what is put on the stream in front of the work, then the call or what takes its place,
// then what is put behind it, a latched error, crash after. Whether the call is made and which code
// the application gets is decided by the fault layer from what this says. A call that was cut off
// while it was held (B18) must not be made.
//
// It copies what it needs, so that in a group it can outlive its call. A call that was cut off
// counts as held until its ordeal is destroyed.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layer/async_errors.hpp"
#include "layer/effects/link_effects.hpp"
#include "layer/effects/stream_effects.hpp"
#include "layer/hold/holds.hpp"
#include "layer/payload/mismatch.hpp"
#include "layer/plan/fault_plan.hpp"

namespace sabot::layer {

// What acting needs beside the call; outlives every ordeal.
struct Means {
  FaultPlan& plan;
  Holds& holds;
  AsyncErrors& async_errors;
  // By lane; null: nothing of ours reaches the streams, or the links, of that engine.
  std::array<StreamEffects*, abi::kLaneCount> streams{};
  std::array<LinkEffects*, abi::kLaneCount> links{};
  // By lane: NVIDIA's library does the work.
  std::array<bool, abi::kLaneCount> is_real{};
  // What a mismatch has to know about the call's surroundings, but for its stream.
  std::function<MismatchSetting(const abi::Call&)> setting;
};

class Ordeal {
 public:
  Ordeal(const Means& means, const abi::Call& call, const Firings& firings);
  Ordeal(const Ordeal&) = delete;
  Ordeal& operator=(const Ordeal&) = delete;

  // False: its communicator ended while the call was held.
  bool enter();
  bool begin_work();
  // is_made: the library took the call, and its work is on the stream or done.
  void end_work(bool is_made);
  // The last moment; may not return.
  void leave(bool is_made);

  // The error, before the call or after it, or the exhaust that the call returns; null: none.
  const Firing* replacement() const { return replacement_; }
  // Success is reported and the call is not made: skip, or an asynchronous error where no stream
  // could be held.
  bool is_left_out() const { return is_left_out_; }
  // The other arguments with which the call is made.
  const Mismatched* mismatched() const { return mismatched_ ? &*mismatched_ : nullptr; }
  const std::string& replacement_text() const { return text_of_replacement_; }
  // Whether elements of a buffer were changed, or are once the work is done.
  bool changes_data() const { return !corruptions_.empty(); }

 private:
  StreamEffects* streams() const { return means_.streams[static_cast<std::size_t>(call_.lane)]; }
  bool is_immediate() const;
  bool is_made() const;
  bool holds_caller(const Firing& firing) const;
  bool wait(const Firing& firing);
  void prepare(const Firing& firing);
  void replace(const Firing& firing);
  void mismatch(const Firing& firing);
  Status hold_stream(const Firing& firing, std::uint64_t limit_ns);
  void latch(const Firing& firing);
  void apply_link(const Firing& firing);
  void plan_corruption(const Firing& firing);
  void corrupt(bool at_entry);
  void refuse(const Firing& firing, const std::string& why) {
    means_.plan.refuse(call_, firing, why);
  }

  struct Corruption {
    const Firing* firing;
    CorruptionPlan plan;
    std::unique_ptr<Undo> undo;
  };

  const Means& means_;
  const abi::Call call_;
  Firings firings_;
  std::string text_of_replacement_;  // the plan's texts do not last
  std::string text_of_latch_;
  std::vector<std::unique_ptr<Holds::Stay>> stays_;
  std::vector<Corruption> corruptions_;
  const Firing* replacement_ = nullptr;
  const Firing* latch_ = nullptr;
  std::optional<Mismatched> mismatched_;
  bool is_left_out_ = false;
};

}  // namespace sabot::layer
