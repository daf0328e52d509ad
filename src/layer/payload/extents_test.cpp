// Goal: how much memory a call promises is what NCCL documents, or is refused. Method: literal
// sizes, and every function, world, rank and root against the fixture's own arithmetic.
#include "layer/payload/extents.hpp"

#include <gtest/gtest.h>

#include "layer/payload/payload_fixture.hpp"

namespace sabot::layer {
namespace {

constexpr int kFloat32 = 7;

Extents extents(const Shape& shape) {
  const Result<Extents> result = extents_of(shape);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return result.ok() ? *result : Extents{};
}
std::string refusal(const Shape& shape) {
  const Result<Extents> result = extents_of(shape);
  return result.ok() ? "none" : result.error().message();
}

TEST(Extents, OfTenElementsOnFourRanksAreWhatNcclDocuments) {
  const auto of = [](Id function, int rank, int root) {
    const Extents both = extents({function, 10, kFloat32, 4, rank, root});
    return std::to_string(both.input) + " " + std::to_string(both.output);
  };
  EXPECT_EQ(of(Id::kAllReduce, 1, -1), "10 10");
  EXPECT_EQ(of(Id::kAllGather, 1, -1), "10 40");
  EXPECT_EQ(of(Id::kReduceScatter, 1, -1), "40 10");
  EXPECT_EQ(of(Id::kAlltoAll, 1, -1), "40 40");
  EXPECT_EQ(of(Id::kReduce, 2, 2), "10 10");
  EXPECT_EQ(of(Id::kReduce, 1, 2), "10 0");
  EXPECT_EQ(of(Id::kBroadcast, 2, 2), "10 10");
  EXPECT_EQ(of(Id::kBroadcast, 1, 2), "0 10");
  EXPECT_EQ(of(Id::kBcast, 1, 2), "0 10");
  EXPECT_EQ(of(Id::kGather, 0, 0), "10 40");
  EXPECT_EQ(of(Id::kGather, 3, 0), "10 0");
  EXPECT_EQ(of(Id::kScatter, 0, 0), "40 10");
  EXPECT_EQ(of(Id::kScatter, 3, 0), "0 10");
  EXPECT_EQ(of(Id::kSend, 0, -1), "10 0");
  EXPECT_EQ(of(Id::kRecv, 0, -1), "0 10");
  EXPECT_EQ(of(Id::kPutSignal, 0, -1), "10 0");
}

TEST(Extents, AgreeWithTheBytesOfTheFixtureForEveryFunctionWorldRankAndRoot) {
  for_each_call(7, {1, 2, 3, 8}, {0, 6, 7, 8, 10}, [](const Given& given) {
    const MadeCall made(given);
    const Result<Extents> result = extents_of(made.call);
    ASSERT_TRUE(result.ok()) << result.error().message();
    const std::uint64_t size = abi::datatype_bytes(given.datatype);
    EXPECT_EQ(result->input * size, input_bytes(given)) << abi::info(given.function).name;
    EXPECT_EQ(result->output * size, output_bytes(given)) << abi::info(given.function).name;
  });
}

TEST(Extents, ExactlyTheFunctionsThatHaveACountAndATypeMoveData) {
  for (const abi::FunctionInfo& info : abi::all_functions())
    EXPECT_EQ(payload_of(info.id).is_any(), info.has_count && info.has_datatype) << info.name;
}

TEST(Extents, AreRefusedWhereTheyCannotBeKnown) {
  EXPECT_EQ(refusal({Id::kGroupEnd}), "ncclGroupEnd moves no data");
  EXPECT_EQ(refusal({Id::kAllReduce, 1, 12, 2, 0, -1}),
            "ncclAllReduce was called with data type 12, whose size is unknown");
  EXPECT_EQ(refusal({Id::kAllGather, 1, 0, 0, 0, -1}),
            "ncclAllGather: how many ranks the communicator has is unknown");
  EXPECT_EQ(refusal({Id::kGather, 1, 0, 2, -1, 0}),
            "ncclGather: which rank of the communicator this is, is unknown");
  EXPECT_EQ(refusal({Id::kGather, 1, 0, 2, 0, 2}),
            "ncclGather: root 2 is no rank of the communicator: 0 to 1");
}

TEST(Extents, ThatNoAddressSpaceHoldsAreRefusedInsteadOfWrappingAround) {
  const std::uint64_t negative = static_cast<std::uint64_t>(-1);
  EXPECT_EQ(refusal({Id::kAllReduce, negative, 0, 2, 0, -1}),
            "ncclAllReduce: 18446744073709551615 elements are more than an address space holds");
  EXPECT_NE(refusal({Id::kAllGather, std::uint64_t{1} << 62, 0, 4, 0, -1}), "none");
  EXPECT_NE(refusal({Id::kAllReduce, std::uint64_t{1} << 61, 8, 2, 0, -1}), "none");
  EXPECT_EQ(refusal({Id::kAllReduce, std::uint64_t{1} << 40, 8, 2, 0, -1}), "none");
}

TEST(Extents, OfFunctionsWithoutRootNeedNoRank) {
  EXPECT_EQ(refusal({Id::kAllReduce, 1, 0, 0, -1, -1}), "none");
  EXPECT_EQ(refusal({Id::kSend, 1, 0, 0, -1, -1}), "none");
}

}  // namespace
}  // namespace sabot::layer
