// Schedules as text, for `sabot schedule show`, for error messages and for golden tests.
#pragma once

#include <cstdint>
#include <string>

#include "schedule/schedule.hpp"

namespace sabot::schedule {

// "put input[0..8) in 2 parts but 0 as message 0 for 1": one step in one line.
std::string describe(const Step& step);

// "AllReduce of 262144 float32 (1MiB) on 4 ranks"
std::string describe(const Request& request);
// "two-phase: 4 chunks of 65536 elements, 8 messages a rank"
std::string describe(const Plan& plan, const Request& request);

// Both of these and a table of the steps of every rank; at most steps_max lines for each rank, then
// how many more there are. request.rank is ignored.
std::string print(const Request& request, const Plan& plan, std::uint64_t steps_max = 16);

}  // namespace sabot::schedule
