// What a libnccl does before it needs a device: versions, texts, ids, groups, and refusing null.
//
// These run on the vendor's library in CI, which has no GPU, so that what they expect is known to
// be true of it; and on every other subject, which must not differ.
#include <cstring>
#include <set>
#include <thread>

#include "subject.hpp"

namespace sabot::conformance {
namespace {

TEST(WithoutGpu, TheVersionIsTheOneThatTheHeaderNumbers) {
  int version = 0;
  ASSERT_RESULT(ncclSuccess, nccl().GetVersion(&version));
  EXPECT_GE(version, NCCL_VERSION(2, 19, 1));
  EXPECT_LT(version, NCCL_VERSION(3, 0, 0));
}

TEST(WithoutGpu, AVersionNeedsSomewhereToGo) {
  EXPECT_RESULT(ncclInvalidArgument, nccl().GetVersion(nullptr));
}

TEST(WithoutGpu, EveryFunctionOfItsVersionIsExportedUnderBothNames) {
  for (const abi::FunctionInfo& function : abi::all_functions()) {
    if (function.since_code > subject().version) continue;
    EXPECT_NE(subject().symbol(function.public_name), nullptr) << function.public_name;
    const std::string profiling = "p" + std::string(function.public_name);
    EXPECT_NE(subject().symbol(profiling.c_str()), nullptr) << profiling;
  }
}

TEST(WithoutGpu, EveryResultHasItsText) {
  // The library may add advice in brackets.
  const auto starts = [](ncclResult_t result, const char* text) {
    EXPECT_EQ(std::string(nccl().GetErrorString(result)).rfind(text, 0), 0u)
        << text_of(result) << " is '" << nccl().GetErrorString(result) << "'";
  };
  starts(ncclSuccess, "no error");
  starts(ncclUnhandledCudaError, "unhandled cuda error");
  starts(ncclSystemError, "unhandled system error");
  starts(ncclInternalError, "internal error");
  starts(ncclInvalidArgument, "invalid argument");
  starts(ncclInvalidUsage, "invalid usage");
  starts(ncclRemoteError, "remote process exited or there was a network error");
  starts(ncclInProgress, "NCCL operation in progress");
  if (subject().version >= NCCL_VERSION(2, 30, 3)) starts(ncclTimeout, "timeout");
}

TEST(WithoutGpu, ResultsThatDoNotExistHaveATextToo) {
  for (const int result : {-1, 9, 1000})
    EXPECT_STREQ(nccl().GetErrorString(static_cast<ncclResult_t>(result)), "unknown result code");
}

TEST(WithoutGpu, UniqueIdsDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 4; ++i) {
    ncclUniqueId id;
    std::memset(&id, 0, sizeof id);
    ASSERT_RESULT(ncclSuccess, nccl().GetUniqueId(&id));
    seen.insert(std::string(id.internal, sizeof id.internal));
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(WithoutGpu, AUniqueIdNeedsSomewhereToGo) {
  EXPECT_RESULT(ncclInvalidArgument, nccl().GetUniqueId(nullptr));
}

// The depth of groups belongs to the thread, so each of these tests has a fresh one.
template <typename Body>
void in_fresh_thread(Body body) {
  std::thread(body).join();
}

TEST(WithoutGpu, EmptyGroupsNest) {
  in_fresh_thread([] {
    EXPECT_RESULT(ncclSuccess, nccl().GroupStart());
    EXPECT_RESULT(ncclSuccess, nccl().GroupStart());
    EXPECT_RESULT(ncclSuccess, nccl().GroupEnd());
    EXPECT_RESULT(ncclSuccess, nccl().GroupEnd());
  });
}

TEST(WithoutGpu, EndingAGroupThatWasNotStartedIsInvalidUsage) {
  in_fresh_thread([] {
    EXPECT_RESULT(ncclInvalidUsage, nccl().GroupEnd());
    EXPECT_RESULT(ncclSuccess, nccl().GroupStart());
    EXPECT_RESULT(ncclSuccess, nccl().GroupEnd());
    EXPECT_RESULT(ncclInvalidUsage, nccl().GroupEnd());
  });
}

TEST(WithoutGpu, GroupsOfOneThreadAreNotSeenByAnother) {
  in_fresh_thread([] {
    EXPECT_RESULT(ncclSuccess, nccl().GroupStart());
    in_fresh_thread([] { EXPECT_RESULT(ncclInvalidUsage, nccl().GroupEnd()); });
    EXPECT_RESULT(ncclSuccess, nccl().GroupEnd());
  });
}

TEST(WithoutGpu, AnErrorInAGroupComesFromTheCallAndAgainFromItsEnd) {
  in_fresh_thread([] {
    float value = 0;
    EXPECT_RESULT(ncclSuccess, nccl().GroupStart());
    EXPECT_RESULT(ncclInvalidArgument,
                  nccl().AllReduce(&value, &value, 1, ncclFloat32, ncclSum, nullptr, nullptr));
    EXPECT_RESULT(ncclInvalidArgument, nccl().GroupEnd());
    EXPECT_RESULT(ncclSuccess, nccl().GroupStart());
    EXPECT_RESULT(ncclSuccess, nccl().GroupEnd());
  });
}

TEST(WithoutGpu, CollectivesRefuseANullCommunicator) {
  float value = 0;
  const Api& api = nccl();
  EXPECT_RESULT(ncclInvalidArgument,
                api.AllReduce(&value, &value, 1, ncclFloat32, ncclSum, nullptr, nullptr));
  EXPECT_RESULT(ncclInvalidArgument,
                api.Reduce(&value, &value, 1, ncclFloat32, ncclSum, 0, nullptr, nullptr));
  EXPECT_RESULT(ncclInvalidArgument,
                api.ReduceScatter(&value, &value, 1, ncclFloat32, ncclSum, nullptr, nullptr));
  EXPECT_RESULT(ncclInvalidArgument,
                api.Broadcast(&value, &value, 1, ncclFloat32, 0, nullptr, nullptr));
  EXPECT_RESULT(ncclInvalidArgument, api.Bcast(&value, 1, ncclFloat32, 0, nullptr, nullptr));
  EXPECT_RESULT(ncclInvalidArgument,
                api.AllGather(&value, &value, 1, ncclFloat32, nullptr, nullptr));
  EXPECT_RESULT(ncclInvalidArgument, api.Send(&value, 1, ncclFloat32, 0, nullptr, nullptr));
  EXPECT_RESULT(ncclInvalidArgument, api.Recv(&value, 1, ncclFloat32, 0, nullptr, nullptr));
}

TEST(WithoutGpu, NewerCollectivesRefuseANullCommunicator) {
  REQUIRE_FUNCTION(AlltoAll);
  float value = 0;
  const Api& api = nccl();
  EXPECT_RESULT(ncclInvalidArgument,
                api.AlltoAll(&value, &value, 1, ncclFloat32, nullptr, nullptr));
  EXPECT_RESULT(ncclInvalidArgument,
                api.Gather(&value, &value, 1, ncclFloat32, 0, nullptr, nullptr));
  EXPECT_RESULT(ncclInvalidArgument,
                api.Scatter(&value, &value, 1, ncclFloat32, 0, nullptr, nullptr));
}

TEST(WithoutGpu, QueriesRefuseANullCommunicator) {
  int number = 0;
  ncclResult_t state = ncclSuccess;
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommCount(nullptr, &number));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommUserRank(nullptr, &number));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommCuDevice(nullptr, &number));
  EXPECT_RESULT(ncclInvalidArgument, nccl().CommGetAsyncError(nullptr, &state));
}

TEST(WithoutGpu, EndingNoCommunicatorSucceeds) {
  EXPECT_RESULT(ncclSuccess, nccl().CommFinalize(nullptr));
  EXPECT_RESULT(ncclSuccess, nccl().CommDestroy(nullptr));
  EXPECT_RESULT(ncclSuccess, nccl().CommAbort(nullptr));
}

TEST(WithoutGpu, BuiltInReductionsCannotBeDestroyed) {
  EXPECT_RESULT(ncclInvalidArgument, nccl().RedOpDestroy(ncclSum, nullptr));
  EXPECT_RESULT(ncclInvalidArgument, nccl().RedOpDestroy(static_cast<ncclRedOp_t>(7), nullptr));
}

TEST(WithoutGpu, ACreatedReductionNeedsACommunicator) {
  ncclRedOp_t op = ncclSum;
  float scalar = 2;
  EXPECT_RESULT(ncclInvalidArgument, nccl().RedOpCreatePreMulSum(&op, &scalar, ncclFloat32,
                                                                 ncclScalarHostImmediate, nullptr));
}

TEST(WithoutGpu, EveryParameterThatIsListedCanBeRead) {
  REQUIRE_FUNCTION(ParamGetAllParameterKeys);
  const char** keys = nullptr;
  int count = 0;
  ASSERT_RESULT(ncclSuccess, nccl().ParamGetAllParameterKeys(&keys, &count));
  ASSERT_GT(count, 0);
  // The list belongs to the library until the next call that makes one.
  const std::vector<std::string> names(keys, keys + count);
  for (const std::string& name : names) {
    const char* value = nullptr;
    int length = -1;
    EXPECT_RESULT(ncclSuccess, nccl().ParamGetParameter(name.c_str(), &value, &length)) << name;
    ASSERT_NE(value, nullptr) << name;
    EXPECT_EQ(length, static_cast<int>(std::strlen(value))) << name;
    ncclParamHandle_t handle = nullptr;
    EXPECT_RESULT(ncclSuccess, nccl().ParamBind(&handle, name.c_str())) << name;
  }
}

TEST(WithoutGpu, UnknownParametersAreRefused) {
  REQUIRE_FUNCTION(ParamBind);
  const char* value = nullptr;
  int length = 0;
  ncclParamHandle_t handle = nullptr;
  EXPECT_RESULT(ncclInvalidArgument, nccl().ParamGetParameter("NO_SUCH_KEY", &value, &length));
  EXPECT_RESULT(ncclInvalidArgument, nccl().ParamBind(&handle, "NO_SUCH_KEY"));
  EXPECT_RESULT(ncclInvalidArgument, nccl().ParamBind(nullptr, "NO_SUCH_KEY"));
}

TEST(WithoutGpu, TheLastErrorNamesTheFunctionThatWasRefused) {
  EXPECT_RESULT(ncclInvalidArgument, nccl().GetUniqueId(nullptr));
  EXPECT_NE(std::string(nccl().GetLastError(nullptr)).find("GetUniqueId"), std::string::npos)
      << nccl().GetLastError(nullptr);
}

}  // namespace
}  // namespace sabot::conformance
