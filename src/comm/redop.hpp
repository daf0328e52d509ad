// Reductions that the application creates: a scalar that multiplies this rank's input, then a sum.
//
// They belong to one communicator and one data type; the number given out carries a salt of its
// communicator, so that an operator used with another one is recognised. Thread-safe.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/datatype.hpp"
#include "base/result.hpp"

namespace sabot::comm {

struct UserRedOp {
  DataType type = DataType::kFloat32;
  const void* location = nullptr;  // read when the operation runs; null = bits hold the scalar
  std::uint64_t bits = 0;

  std::uint64_t scalar_bits() const;
};

class RedOps {
 public:
  RedOps();
  // location: ncclScalarDevice, else the scalar is read now.
  Result<ncclRedOp_t> create(const void* scalar, DataType type, bool read_later);
  Status destroy(int op);
  // Errors: not one of ours, of another communicator, destroyed.
  Result<UserRedOp> find(int op) const;

 private:
  struct Place {
    bool of_this_comm = false;
    std::size_t index = 0;
  };
  Place place_of(int op) const;
  Error unknown(int op) const;

  const std::uint32_t salt_;
  mutable std::mutex mutex_;
  std::vector<std::optional<UserRedOp>> ops_;
};

}  // namespace sabot::comm
