// The kernels of kernels.hpp, for the CPU: what the fake driver executes in their place.
//
// Written from the description in that header, not from the PTX text. Memory is reached only
// through Reach, which knows what is mapped.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "driver/kernels.hpp"

namespace sabot::driver {

// How the fake GPU reaches memory: mapped host memory by its mapped address (null where nothing is
// mapped), everything else as it is.
struct Reach {
  std::function<void*(Address)> host;
  std::function<std::uint64_t(std::uint32_t, std::uint64_t, double)> scale;
};

// Done, or to be asked again at a later time.
std::function<bool(std::uint64_t now_ns)> fake_spin(const SpinParameters& spin, Reach reach);
std::function<bool(std::uint64_t now_ns)> fake_edit(const EditParameters& edit, Reach reach);

}  // namespace sabot::driver
