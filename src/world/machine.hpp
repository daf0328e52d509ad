// Facts about the machine and randomness from the kernel.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace sabot::world {

// Random bits from the kernel; SystemError where it has none.
Result<std::uint64_t> random_bits();

// Equal for two processes exactly if they run on the same booted kernel; containers of one machine
// agree.
std::string machine_identity();
// The name a person knows the machine by; "?" where it has none.
std::string machine_name();

}  // namespace sabot::world
