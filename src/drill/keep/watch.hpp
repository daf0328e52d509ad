// What a keeper does, in a process of its own: start, watch, end, tell.
#pragma once

#include "drill/keep/keeper.hpp"

namespace sabot::drill {

// In the child of a fork. Tells its ending to socket and exits; goes early when the other side of
// the socket closes or stops writing.
[[noreturn]] void keep(const Order& order, int socket);

// Ends every process below this one, whatever it takes; the texts name those that could not be.
std::vector<std::string> end_all_below(pid_t root);

}  // namespace sabot::drill
