// The life of reductions that the application creates: what they bind to, and when they end.
#include "array.hpp"
#include "world.hpp"

namespace sabot::conformance {
namespace {

class CreatedReductions : public WithRanks {};

// rank + 1 on every rank, times the rank's own scalar, summed.
Verdict expect_scaled_sum(const Rank& own, ncclRedOp_t op, float scalar) {
  const Array<float> data(std::vector<float>(9, static_cast<float>(own.rank + 1)), own.stream);
  MUST_SUCCEED(AllReduce(data.data(), data.data(), 9, ncclFloat32, op, own.comm, own.stream));
  const float sum = scalar * static_cast<float>(own.ranks * (own.ranks + 1)) / 2;
  return wrong(differs("scaled sum", data.get(), std::vector<float>(9, sum)));
}

TEST_P(CreatedReductions, SeveralLiveSideBySide) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    ncclRedOp_t twice = ncclSum;
    ncclRedOp_t half = ncclSum;
    float scalar = 2;
    MUST_SUCCEED(
        RedOpCreatePreMulSum(&twice, &scalar, ncclFloat32, ncclScalarHostImmediate, own.comm));
    scalar = 0.5f;
    MUST_SUCCEED(
        RedOpCreatePreMulSum(&half, &scalar, ncclFloat32, ncclScalarHostImmediate, own.comm));
    scalar = 1000;  // was read when the reduction was created
    for (const auto& [op, factor] : {std::pair{half, 0.5f}, {twice, 2.0f}, {half, 0.5f}}) {
      const Verdict verdict = expect_scaled_sum(own, op, factor);
      if (!verdict.complaint.empty()) return verdict;
    }
    MUST_SUCCEED(RedOpDestroy(twice, own.comm));
    const Verdict survivor = expect_scaled_sum(own, half, 0.5f);
    MUST_SUCCEED(RedOpDestroy(half, own.comm));
    return survivor;
  });
}

TEST_P(CreatedReductions, MayBeDestroyedAsSoonAsTheirLastCallReturned) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const Array<float> data(std::vector<float>(1023, 1.0f), own.stream);
    ncclRedOp_t op = ncclSum;
    float scalar = 3;
    MUST_SUCCEED(
        RedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, own.comm));
    MUST_SUCCEED(AllReduce(data.data(), data.data(), 1023, ncclFloat32, op, own.comm, own.stream));
    MUST_SUCCEED(RedOpDestroy(op, own.comm));
    return wrong(differs("scaled sum", data.get(),
                         std::vector<float>(1023, 3.0f * static_cast<float>(own.ranks))));
  });
}

TEST_P(CreatedReductions, ReadAScalarInDeviceMemoryWhenTheyRun) {
  run_in_threads(GetParam(), [](const Rank& own, Buffers&) -> Verdict {
    const Array<float> scalar(std::vector<float>{7.0f}, own.stream);
    ncclRedOp_t op = ncclSum;
    MUST_SUCCEED(RedOpCreatePreMulSum(&op, scalar.data(), ncclFloat32, ncclScalarDevice, own.comm));
    scalar.set({4.0f});
    const Verdict verdict = expect_scaled_sum(own, op, 4.0f);
    MUST_SUCCEED(RedOpDestroy(op, own.comm));
    return verdict;
  });
}

INSTANTIATE_FOR_EVERY_WORLD(CreatedReductions);

class Reductions : public ::testing::Test {
 protected:
  void SetUp() override {
    World* world = threads_world(1);
    ASSERT_NE(world, nullptr);
    own_ = world->ranks().front();
    subject().memory->use_device(0);
  }
  ncclRedOp_t create(ncclDataType_t type, void* scalar) {
    ncclRedOp_t op = ncclSum;
    EXPECT_RESULT(ncclSuccess, nccl().RedOpCreatePreMulSum(&op, scalar, type,
                                                           ncclScalarHostImmediate, own_.comm));
    return op;
  }
  ncclResult_t use(ncclRedOp_t op, ncclDataType_t type, ncclComm_t comm) {
    const Array<float> data(4, own_.stream);
    return nccl().AllReduce(data.data(), data.data(), 4, type, op, comm, own_.stream);
  }

  Rank own_;
};

TEST_F(Reductions, CreatedOnesAreNotBuiltIn) {
  float scalar = 2;
  const ncclRedOp_t op = create(ncclFloat32, &scalar);
  EXPECT_GE(op, ncclNumOps);
  EXPECT_RESULT(ncclSuccess, use(op, ncclFloat32, own_.comm));
  EXPECT_RESULT(ncclSuccess, nccl().RedOpDestroy(op, own_.comm));
}

TEST_F(Reductions, ADestroyedOneIsRefused) {
  float scalar = 2;
  const ncclRedOp_t op = create(ncclFloat32, &scalar);
  EXPECT_RESULT(ncclSuccess, nccl().RedOpDestroy(op, own_.comm));
  EXPECT_RESULT(ncclInvalidArgument, use(op, ncclFloat32, own_.comm));
  EXPECT_RESULT(ncclInvalidArgument, nccl().RedOpDestroy(op, own_.comm));
}

TEST_F(Reductions, OneOfAnotherTypeIsRefused) {
  float scalar = 2;
  const ncclRedOp_t op = create(ncclFloat32, &scalar);
  EXPECT_RESULT(ncclInvalidArgument, use(op, ncclInt32, own_.comm));
  EXPECT_RESULT(ncclSuccess, nccl().RedOpDestroy(op, own_.comm));
}

TEST_F(Reductions, OneOfAnotherCommunicatorIsRefused) {
  ncclComm_t other = nullptr;
  ASSERT_RESULT(ncclSuccess, nccl().CommInitAll(&other, 1, nullptr));
  float scalar = 2;
  const ncclRedOp_t op = create(ncclFloat32, &scalar);
  EXPECT_RESULT(ncclInvalidArgument, use(op, ncclFloat32, other));
  EXPECT_RESULT(ncclSuccess, nccl().RedOpDestroy(op, own_.comm));
  EXPECT_RESULT(ncclSuccess, nccl().CommDestroy(other));
}

TEST_F(Reductions, ManyMayExistAtOnce) {
  std::vector<ncclRedOp_t> ops;
  for (int i = 0; i < 100; ++i) {
    auto scalar = static_cast<float>(i);
    ops.push_back(create(ncclFloat32, &scalar));
  }
  const Array<float> data(std::vector<float>{1.0f}, own_.stream);
  EXPECT_RESULT(ncclSuccess, nccl().AllReduce(data.data(), data.data(), 1, ncclFloat32, ops[63],
                                              own_.comm, own_.stream));
  EXPECT_EQ(data.get(), std::vector<float>{63.0f});
  for (const ncclRedOp_t op : ops) EXPECT_RESULT(ncclSuccess, nccl().RedOpDestroy(op, own_.comm));
}

}  // namespace
}  // namespace sabot::conformance
