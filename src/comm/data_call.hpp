// One collective, send or recv as the application called it, and its check.
//
// Checking is complete before anything is issued: an operation that passed is wrong only if ranks
// disagree. A wrong argument is named with its value and what was expected.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <optional>

#include "base/result.hpp"
#include "comm/comm.hpp"
#include "engine/host/endpoint.hpp"

namespace sabot::comm {

struct DataCall {
  const char* function = "";
  host::Operation::Kind kind = host::Operation::Kind::kCollective;
  schedule::Collective collective = schedule::Collective::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  int datatype = 0;
  int redop = 0;
  int root = 0;
  int peer = -1;
};

// A checked operation, complete but for a scalar that is read when it runs.
struct Checked {
  host::Operation operation;
  std::optional<UserRedOp> premul;
  bool is_nothing = false;  // sends and receives of no elements do nothing, as in NCCL

  host::Operation ready() const {
    host::Operation now = operation;
    if (premul) now.premul_bits = premul->scalar_bits();
    return now;
  }
};

Result<Checked> check(const Comm& comm, const DataCall& call);

// The same for a built-in reduction and without allocation, for the one blocking operation; false
// if anything is unusual, then check() decides.
bool check_quickly(const Comm& comm, const DataCall& call, host::Operation& operation);

}  // namespace sabot::comm
