// Calls of every function that moves data, with real buffers, for tests of what may be done to
// them.
//
// The sizes are written down here a second time, in bytes and from NCCL's documentation, so that
// extents.cpp is not its own judge. Buffers stand between guards that tell any access for writing
// outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "abi/call.hpp"
#include "abi/names.hpp"
#include "base/random.hpp"

namespace sabot::layer {

using Id = abi::FunctionId;

inline constexpr Id kPayloadFunctions[] = {
    Id::kAllReduce, Id::kReduce, Id::kBroadcast, Id::kBcast, Id::kAllGather, Id::kReduceScatter,
    Id::kAlltoAll,  Id::kGather, Id::kScatter,   Id::kSend,  Id::kRecv,      Id::kPutSignal};

struct Given {
  Id function;
  std::uint64_t count;
  int datatype;
  int ranks;
  int rank;
  int root;  // of functions that have none: ignored
};

inline std::uint64_t input_bytes(const Given& given) {
  const std::uint64_t block = given.count * abi::datatype_bytes(given.datatype);
  const std::uint64_t all = block * static_cast<std::uint64_t>(given.ranks);
  const bool is_root = given.rank == given.root;
  switch (given.function) {
    case Id::kReduceScatter:
    case Id::kAlltoAll: return all;
    case Id::kScatter: return is_root ? all : 0;
    case Id::kBroadcast:
    case Id::kBcast: return is_root ? block : 0;
    case Id::kRecv: return 0;
    default: return block;
  }
}

inline std::uint64_t output_bytes(const Given& given) {
  const std::uint64_t block = given.count * abi::datatype_bytes(given.datatype);
  const std::uint64_t all = block * static_cast<std::uint64_t>(given.ranks);
  const bool is_root = given.rank == given.root;
  switch (given.function) {
    case Id::kAllGather:
    case Id::kAlltoAll: return all;
    case Id::kGather: return is_root ? all : 0;
    case Id::kReduce: return is_root ? block : 0;
    case Id::kSend:
    case Id::kPutSignal: return 0;
    default: return block;
  }
}

// Bytes of a seeded pattern between two guards, unaligned on purpose.
class Guarded {
 public:
  Guarded(std::uint64_t bytes, std::uint64_t seed) : bytes_(bytes), all_(bytes + 2 * kGuard) {
    Random random(seed);
    for (std::byte& byte : all_) byte = static_cast<std::byte>(random.next());
    before_ = all_;
  }
  std::byte* data() { return all_.data() + kGuard; }
  std::uint64_t size() const { return bytes_; }
  bool is_unchanged() const { return all_ == before_; }
  bool is_unchanged_outside() const {
    return std::memcmp(all_.data(), before_.data(), kGuard) == 0 &&
           std::memcmp(all_.data() + kGuard + bytes_, before_.data() + kGuard + bytes_, kGuard) ==
               0;
  }
  // The positions of the elements that differ from the pattern.
  std::vector<std::uint64_t> changed(std::size_t element_bytes) const {
    std::vector<std::uint64_t> positions;
    for (std::uint64_t at = 0; at < bytes_; at += element_bytes)
      if (std::memcmp(&all_[kGuard + at], &before_[kGuard + at], element_bytes) != 0)
        positions.push_back(at / element_bytes);
    return positions;
  }

 private:
  static constexpr std::size_t kGuard = 65;
  std::uint64_t bytes_;
  std::vector<std::byte> all_;
  std::vector<std::byte> before_;
};

// A call whose buffers hold exactly what NCCL promises to touch; none where it touches none.
struct MadeCall {
  explicit MadeCall(const Given& given)
      : input(input_bytes(given), 11), output(output_bytes(given), 12) {
    const abi::FunctionInfo& info = abi::info(given.function);
    call.function = given.function;
    call.comm_ranks = given.ranks;
    call.rank = given.rank;
    call.has_count = true;
    call.count = given.count;
    call.datatype = given.datatype;
    call.bytes = given.count * abi::datatype_bytes(given.datatype);
    call.redop = info.has_redop ? 0 : -1;
    call.root = info.has_root ? given.root : -1;
    call.send = input.size() == 0 ? nullptr : input.data();
    call.recv = output.size() == 0 ? nullptr : output.data();
    if (given.function == Id::kBcast) call.send = call.recv;
  }
  Guarded input;
  Guarded output;
  abi::Call call;
};

// Every function × world × rank × root × type of the given ones, with this count.
inline void for_each_call(std::uint64_t count, std::initializer_list<int> worlds,
                          std::initializer_list<int> datatypes,
                          const std::function<void(const Given&)>& visit) {
  for (const Id function : kPayloadFunctions) {
    const int roots = abi::info(function).has_root ? 3 : 1;
    for (const int ranks : worlds)
      for (const int datatype : datatypes)
        for (int rank = 0; rank < ranks; ++rank)
          for (int root = 0; root < roots && root < ranks; ++root)
            visit({function, count, datatype, ranks, rank, root});
  }
}

}  // namespace sabot::layer
