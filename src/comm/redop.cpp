// Numbers of user reductions: ncclNumOps + (salt of the communicator, index).
#include "comm/redop.hpp"

#include <atomic>
#include <cstring>
#include <string>

namespace sabot::comm {
namespace {

constexpr std::uint32_t kIndexBits = 12;
constexpr std::size_t kOpsMax = 1 << kIndexBits;
constexpr std::uint32_t kSaltMask = (1u << 18) - 1;

std::uint32_t next_salt() {
  static std::atomic<std::uint32_t> comms{0};
  return comms.fetch_add(1) & kSaltMask;
}

}  // namespace

std::uint64_t UserRedOp::scalar_bits() const {
  if (location == nullptr) return bits;
  std::uint64_t now = 0;
  std::memcpy(&now, location, bytes_of(type));
  return now;
}

RedOps::RedOps() : salt_(next_salt()) {}

Result<ncclRedOp_t> RedOps::create(const void* scalar, DataType type, bool read_later) {
  UserRedOp op{type, scalar, 0};
  if (!read_later) {
    op.bits = op.scalar_bits();
    op.location = nullptr;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  std::size_t index = 0;
  while (index < ops_.size() && ops_[index].has_value()) ++index;
  if (index == kOpsMax) {
    return Error(Code::kInvalidUsage, "this communicator has 4096 operators; destroy some");
  }
  if (index == ops_.size()) ops_.emplace_back();
  ops_[index] = op;
  return static_cast<ncclRedOp_t>(ncclNumOps + static_cast<int>(salt_ << kIndexBits | index));
}

RedOps::Place RedOps::place_of(int op) const {
  const auto number = static_cast<std::uint32_t>(op - ncclNumOps);
  return {op >= ncclNumOps && number >> kIndexBits == salt_, number % kOpsMax};
}

Error RedOps::unknown(int op) const {
  return Error(Code::kInvalidArgument,
               "op is " + std::to_string(op) +
                   ", which is neither a built-in reduction (0 to 4) nor an operator that "
                   "ncclRedOpCreatePreMulSum made for this communicator and that still exists");
}

Status RedOps::destroy(int op) {
  const Place place = place_of(op);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!place.of_this_comm || place.index >= ops_.size() || !ops_[place.index]) return unknown(op);
  ops_[place.index].reset();
  return {};
}

Result<UserRedOp> RedOps::find(int op) const {
  const Place place = place_of(op);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!place.of_this_comm || place.index >= ops_.size() || !ops_[place.index]) return unknown(op);
  return *ops_[place.index];
}

}  // namespace sabot::comm
