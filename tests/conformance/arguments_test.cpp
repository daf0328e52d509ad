// Arguments that a communicator refuses, each with the code that NCCL gives.
#include <thread>

#include "array.hpp"
#include "world.hpp"

namespace sabot::conformance {
namespace {

// A communicator of one rank, in the thread of the test.
class Arguments : public ::testing::Test {
 protected:
  void SetUp() override {
    World* world = threads_world(1);
    ASSERT_NE(world, nullptr);
    own_ = world->ranks().front();
    subject().memory->use_device(0);
  }
  ncclComm_t comm() const { return own_.comm; }
  Stream stream() const { return own_.stream; }

  Rank own_;
};

TEST_F(Arguments, TheRootMustBeARank) {
  const Array<float> data(4, stream());
  for (const int root : {-1, 1, 1000}) {
    EXPECT_RESULT(ncclInvalidArgument, nccl().Broadcast(data.data(), data.data(), 4, ncclFloat32,
                                                        root, comm(), stream()));
    EXPECT_RESULT(ncclInvalidArgument,
                  nccl().Bcast(data.data(), 4, ncclFloat32, root, comm(), stream()));
    EXPECT_RESULT(ncclInvalidArgument, nccl().Reduce(data.data(), data.data(), 4, ncclFloat32,
                                                     ncclSum, root, comm(), stream()));
  }
}

TEST_F(Arguments, TheRootOfGatherAndScatterMustBeARank) {
  REQUIRE_FUNCTION(Gather);
  const Array<float> data(4, stream());
  for (const int root : {-1, 1}) {
    EXPECT_RESULT(ncclInvalidArgument,
                  nccl().Gather(data.data(), data.data(), 4, ncclFloat32, root, comm(), stream()));
    EXPECT_RESULT(ncclInvalidArgument,
                  nccl().Scatter(data.data(), data.data(), 4, ncclFloat32, root, comm(), stream()));
  }
}

TEST_F(Arguments, ThePeerMustBeARank) {
  const Array<float> data(4, stream());
  for (const int peer : {-1, 1}) {
    EXPECT_RESULT(ncclInvalidArgument,
                  nccl().Send(data.data(), 4, ncclFloat32, peer, comm(), stream()));
    EXPECT_RESULT(ncclInvalidArgument,
                  nccl().Recv(data.data(), 4, ncclFloat32, peer, comm(), stream()));
  }
}

TEST_F(Arguments, TheTypeMustExist) {
  const Array<float> data(4, stream());
  for (const int type : {-1, 12, 99}) {
    const auto unknown = static_cast<ncclDataType_t>(type);
    EXPECT_RESULT(ncclInvalidArgument, nccl().AllReduce(data.data(), data.data(), 4, unknown,
                                                        ncclSum, comm(), stream()));
    EXPECT_RESULT(ncclInvalidArgument,
                  nccl().AllGather(data.data(), data.data(), 4, unknown, comm(), stream()));
  }
}

TEST_F(Arguments, TheReductionMustExist) {
  const Array<float> data(4, stream());
  for (const int op : {-1, 5, 4711}) {
    const auto unknown = static_cast<ncclRedOp_t>(op);
    EXPECT_RESULT(ncclInvalidArgument, nccl().AllReduce(data.data(), data.data(), 4, ncclFloat32,
                                                        unknown, comm(), stream()));
    EXPECT_RESULT(
        ncclInvalidArgument,
        nccl().ReduceScatter(data.data(), data.data(), 4, ncclFloat32, unknown, comm(), stream()));
  }
}

TEST_F(Arguments, QueriesNeedSomewhereToGo) {
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommCount(comm(), nullptr));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommUserRank(comm(), nullptr));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommCuDevice(comm(), nullptr));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommGetAsyncError(comm(), nullptr));
}

TEST_F(Arguments, ZeroElementsNeedNoBuffers) {
  const Api& api = nccl();
  EXPECT_RESULT(ncclSuccess,
                api.AllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm(), stream()));
  EXPECT_RESULT(ncclSuccess,
                api.Reduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, 0, comm(), stream()));
  EXPECT_RESULT(ncclSuccess,
                api.ReduceScatter(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm(), stream()));
  EXPECT_RESULT(ncclSuccess, api.Broadcast(nullptr, nullptr, 0, ncclFloat32, 0, comm(), stream()));
  EXPECT_RESULT(ncclSuccess, api.AllGather(nullptr, nullptr, 0, ncclFloat32, comm(), stream()));
}

TEST_F(Arguments, ANewCommunicatorNeedsSomewhereToGo) {
  ncclUniqueId id;
  ASSERT_RESULT(ncclSuccess, nccl().GetUniqueId(&id));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitRank(nullptr, 1, id, 0));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitRankConfig(nullptr, 1, id, 0, nullptr));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitAll(nullptr, 1, nullptr));
}

TEST_F(Arguments, TheRankMustLieInItsWorld) {
  ncclUniqueId id;
  ASSERT_RESULT(ncclSuccess, nccl().GetUniqueId(&id));
  ncclComm_t made = nullptr;
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitRank(&made, 1, id, 1));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitRank(&made, 2, id, -1));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitRank(&made, 0, id, 0));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitRank(&made, -1, id, 0));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitAll(&made, -1, nullptr));
}

TEST_F(Arguments, AConfigMustComeFromTheInitializer) {
  ncclUniqueId id;
  ASSERT_RESULT(ncclSuccess, nccl().GetUniqueId(&id));
  ncclComm_t made = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitRankConfig(&made, 1, id, 0, &config));
  config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 7;
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommInitRankConfig(&made, 1, id, 0, &config));
}

TEST_F(Arguments, ASplitNeedsSomewhereToGo) {
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommSplit(comm(), 0, 0, nullptr, nullptr));
}

TEST_F(Arguments, ARefusalIsExplainedByTheLastError) {
  const Array<float> data(4, stream());
  EXPECT_RESULT(ncclInvalidArgument,
                nccl().Send(data.data(), 4, ncclFloat32, 77, comm(), stream()));
  EXPECT_NE(std::string(nccl().GetLastError(comm())).find("77"), std::string::npos)
      << nccl().GetLastError(comm());
}

// NVIDIA's library may read freed memory here; ours remembers.
TEST(OnHostArguments, ADestroyedCommunicatorIsRefusedEverywhere) {
  ncclComm_t comm = nullptr;
  ASSERT_RESULT(ncclSuccess, nccl().CommInitAll(&comm, 1, nullptr));
  ASSERT_RESULT(ncclSuccess, nccl().CommDestroy(comm));
  float value = 1;
  int number = 0;
  EXPECT_RESULT(ncclInvalidArgument,
                nccl().AllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommCount(comm, &number));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommDestroy(comm));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommAbort(comm));
}

TEST(OnHostArguments, AHandleThatWasNeverOneIsRefused) {
  alignas(64) char not_a_comm[4096] = {};
  const auto comm = reinterpret_cast<ncclComm_t>(not_a_comm);
  float value = 1;
  int number = 0;
  EXPECT_RESULT(ncclInvalidArgument,
                nccl().AllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommCount(comm, &number));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommDestroy(comm));
}

TEST(OnHostArguments, ElementsWithoutABufferAreRefused) {
  ncclComm_t comm = nullptr;
  ASSERT_RESULT(ncclSuccess, nccl().CommInitAll(&comm, 1, nullptr));
  float value = 1;
  EXPECT_RESULT(ncclInvalidArgument,
                nccl().AllReduce(nullptr, &value, 1, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT_RESULT(ncclInvalidArgument,
                nccl().AllReduce(&value, nullptr, 1, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT_RESULT(ncclSuccess, nccl().CommDestroy(comm));
}

}  // namespace
}  // namespace sabot::conformance
