// Which elements of a call's data a fault changes, and how: the plan is pure, carrying it out is
// short.
//
// A plan is made once, at the call, from what the scenario says and from the firing's bits, so that
// the same firing changes the same places to the same values in every run. It holds all that the
// host or a GPU kernel needs: at most kPlacesMax elements, each with two masks, or one factor.
//
// What "before" and "after" mean:
//   before  The call runs as if this rank's input had been corrupt. Afterwards the caller has its
//           input back, except where the output covers it (in place): that is output then.
//   after   This rank's output is changed once it is there; nobody else sees it.
//   stale   The output keeps, at these places, what the buffer held before the call: data of an
//           earlier step that nobody replaced. It has no meaning for input.
// A flipped bit may be any of the element's. NaN is the quiet one, all ones for integers. A factor
// is applied in float32 to floats of at most 32 bits (in float64 to the others), and rounded to
// nearest even; integers stay within their range, float8 within its finite one, as in NCCL. A zero
// scaled is a zero, so the wish may change nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "abi/call.hpp"
#include "base/datatype.hpp"
#include "base/result.hpp"
#include "scenario/act.hpp"

namespace sabot::layer {

struct CorruptionPlan {
  static constexpr std::size_t kPlacesMax = 64;
  static_assert(scenario::kCorruptElementsMax <= kPlacesMax);

  enum class Operation : std::uint8_t {
    kMask,   // new bits = (old bits & place.mask) ^ place.flip
    kScale,  // new value = old value × factor, see scaled()
  };
  struct Place {
    std::uint64_t element = 0;  // index in the buffer
    std::uint64_t mask = 0;     // the bits that stay; above the element's size all are 0
    std::uint64_t flip = 0;
  };

  Operation operation = Operation::kMask;
  DataType datatype = DataType::kInt8;
  // Whether the change is put before the call; else after it (in a group: after the outermost
  // GroupEnd).
  bool at_entry = false;
  std::uint32_t count = 0;                 // of places
  void* buffer = nullptr;                  // of count, or per-rank, elements as extents_of says
  double factor = 1;                       // kScale
  std::uint64_t kept = 0;                  // bit i: place i gets its old bits back after the call
  std::array<Place, kPlacesMax> places{};  // ascending by element, each element once
};

// Errors: the call has no such data on this rank, or its arguments make no sense; nothing is
// changed then.
Result<CorruptionPlan> corruption_of(const scenario::Act& act, std::uint64_t bits,
                                     const abi::Call& call);

// The bits of the elements before they were changed, in the order of places.
struct OldBits {
  std::array<std::uint64_t, CorruptionPlan::kPlacesMax> of{};
};

// Changes the elements of plan.buffer, which this process can write to. The buffer need not be
// aligned.
OldBits apply(const CorruptionPlan& plan);
// Puts the old bits of the kept places back.
void restore(const CorruptionPlan& plan, const OldBits& old);

// What kScale makes of an element, by its bits; a kernel must agree.
std::uint64_t scaled(DataType type, std::uint64_t bits, double factor);

}  // namespace sabot::layer
