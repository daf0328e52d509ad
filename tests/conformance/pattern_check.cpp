// The claim that the whole suite rests on: no order of reducing the crafted data rounds anywhere.
//
// Folds the inputs with the host engine's kernels, which round after every step as a ring of ranks
// would, in four orders, and compares with the expectation that was computed in integers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "engine/host/reduce.hpp"
#include "pattern.hpp"

namespace sabot::conformance {
namespace {

constexpr std::size_t kElements = 257;
using Bytes = std::vector<unsigned char>;

Bytes inputs_of(const ReductionPattern& pattern, ncclDataType_t type, Op op, int rank) {
  const std::size_t width = bytes_of(type);
  Bytes bytes(kElements * width);
  for (std::size_t i = 0; i < kElements; ++i) {
    const Bits bits = pattern.input(rank, i);
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  if (op == Op::kPreMulSum) {
    const Bits scalar = pattern.scalar(rank);
    host::scale(static_cast<DataType>(type), bytes.data(), bytes.data(), kElements, &scalar);
  }
  return bytes;
}

Bytes fold(const std::vector<Bytes>& inputs, const std::vector<std::size_t>& order,
           ncclDataType_t type, Op op) {
  const auto element = static_cast<DataType>(type);
  const auto step = op == Op::kAvg ? ReduceOp::kSum : static_cast<ReduceOp>(op);
  Bytes total = inputs[order[0]];
  for (std::size_t i = 1; i < order.size(); ++i) {
    const void* sources[] = {total.data(), inputs[order[i]].data()};
    host::reduce({element, step}, total.data(), sources, kElements);
  }
  if (op != Op::kAvg) return total;
  const void* sources[] = {total.data()};
  host::reduce({element, ReduceOp::kAvg, static_cast<std::uint32_t>(order.size())}, total.data(),
               sources, kElements);
  return total;
}

void expect_exact(ncclDataType_t type, Op op, int ranks) {
  const ReductionPattern pattern(type, op, ranks, 7);
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(inputs_of(pattern, type, op, rank));
  std::vector<std::size_t> order(inputs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t width = bytes_of(type);
  std::set<Bits> different;
  for (int turn = 0; turn < 4; ++turn) {
    const Bytes total = fold(inputs, order, type, op);
    for (std::size_t i = 0; i < kElements; ++i) {
      Bits got = 0;
      std::memcpy(&got, total.data() + i * width, width);
      const Bits wanted = pattern.expected(i) & (~Bits{0} >> (64 - 8 * width));
      ASSERT_TRUE(same(type, got, wanted))
          << name_of(type) << " " << name_of(op) << " of " << ranks << ", turn " << turn
          << ", element " << i << ": " << show(type, got) << ", not " << show(type, wanted);
      different.insert(wanted);
    }
    std::rotate(order.begin(), order.begin() + 1, order.end());
    if (turn == 1) std::reverse(order.begin(), order.end());
  }
  // Data that is the same everywhere would not show an element in the wrong place.
  EXPECT_GE(different.size(), 3u) << name_of(type) << " " << name_of(op) << " of " << ranks;
}

TEST(Pattern, EveryOrderOfReducingGivesTheExpectedBits) {
  for (int type = 0; type < kTypeCount; ++type)
    for (const Op op : kOps)
      for (int ranks = 1; ranks <= 8; ++ranks)
        expect_exact(static_cast<ncclDataType_t>(type), op, ranks);
}

}  // namespace
}  // namespace sabot::conformance
