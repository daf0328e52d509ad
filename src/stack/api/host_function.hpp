// sabot_stack_info_t.host_function: every function of the host engine, and of ours, by name.
#pragma once

namespace sabot::stack::api {

void* host_function(const char* name) noexcept;

}  // namespace sabot::stack::api
