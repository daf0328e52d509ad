// The two kernels that Sabot puts on a stream, as PTX text and as the structs they are launched
// with.
//
// Written by hand for compute capability 7.0, compiled by the driver, so that no CUDA compiler is
// needed. Both work for one block and touch the memory of the host and the buffer with accesses
// that are legal at any alignment, because a fault must not cost the application its context. Their
// counterparts for the fake driver are in fake_kernels.cpp; a test on a GPU holds both to the same
// results.
#pragma once

#include <cstddef>
#include <cstdint>

#include "driver/driver.hpp"

namespace sabot::driver {

// Both kernels; see the names below.
extern const char* const kKernelsPtx;

// One thread: writes 1 to arrival, stays until the release word is not 0 or the limit is over,
// counted from the arrival, and writes 1 to departure. A release word that stays set lets every
// later launch pass at once, which is what a replayed graph needs.
inline constexpr const char* kSpinName = "sabot_spin";
inline constexpr unsigned kSpinThreads = 1;
struct SpinParameters {
  Address release = 0;
  Address arrival = 0;         // 0: none
  Address departure = 0;       // 0: none
  std::uint64_t limit_ns = 0;  // 0: none
};
static_assert(sizeof(SpinParameters) == 32);

// A thread per element: keeps its bytes in saved, changes it; then one thread writes 1 to done.
inline constexpr const char* kEditName = "sabot_edit";
inline constexpr std::size_t kEditElementsMax = 64;
inline constexpr unsigned kEditThreads = kEditElementsMax;
enum class Edit : std::uint32_t {
  kMask = 0,  // element = (element & mask) ^ flip
  // element = element × factor: floats of at most 32 bits in float32, the others in float64;
  // rounded to nearest even, integers clamped, NaN with all bits but the sign; types of one byte
  // by the table.
  kScale = 1,
  kRestore = 2,  // element = what was saved, where the mask is not 0
};
struct EditParameters {
  Address buffer = 0;
  Address saved = 0;  // 8 bytes an element; 0: none, but for kRestore
  Address done = 0;   // 0: none
  std::uint32_t count = 0;
  std::uint32_t element_bytes = 0;  // 1, 2, 4 or 8
  Edit edit = Edit::kMask;
  std::uint32_t type = 0;  // the value of sabot::DataType
  double factor = 1;
  std::uint64_t index[kEditElementsMax] = {};  // of the elements, in elements
  std::uint64_t mask[kEditElementsMax] = {};
  std::uint64_t flip[kEditElementsMax] = {};
  std::uint8_t table[256] = {};
};
static_assert(sizeof(EditParameters) == 1840, "the size that the PTX text declares");
static_assert(sizeof(EditParameters) <= 4096, "the driver's limit for parameters");

}  // namespace sabot::driver
