// The network of this process, opened from its environment at NCCL's first question.
#pragma once

#include "base/result.hpp"
#include "link/net/transport.hpp"

namespace sabot::products::net {

// The same answer for good. Any thread.
const Result<std::unique_ptr<link::net::Transport>>& process_transport();

}  // namespace sabot::products::net
