// Errors before and after a call, alone and in groups: what is forwarded, what the application is
// told, and when.
#include "layer/fault_fixture.hpp"

namespace sabot::layer {
namespace {

using scenario::Moment;

TEST(FaultBefore, ReturnsTheCodeWithoutCallingTheLibraryAndExplainsItself) {
  App app(FunctionId::kAllReduce, 2, error_act(ncclSystemError));
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.last_error(), "the library's own text");
  EXPECT_EQ(app.all_reduce(), ncclSystemError);
  EXPECT_EQ(app.last_error(), "injected by the test");
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.launched, 2);
}

TEST(FaultAfter, LetsTheLibraryWorkAndThenReturnsTheCode) {
  App app(FunctionId::kAllReduce, 1, error_act(ncclRemoteError, Moment::kAfter));
  EXPECT_EQ(app.all_reduce(), ncclRemoteError);
  EXPECT_EQ(app.engine.launched, 1);
}

TEST(FaultBeforeInGroup, TheCallSucceedsNothingIsLaunchedAndTheOutermostGroupEndReturnsTheCode) {
  App app(FunctionId::kAllReduce, 2, error_act(ncclSystemError));
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSystemError);
  EXPECT_EQ(app.engine.launched, 0);
  EXPECT_EQ(app.engine.seen, (std::vector<std::string>{"AllReduce", "Broadcast"}));
  EXPECT_EQ(app.last_error(), "injected by the test");
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSuccess);
  EXPECT_EQ(app.engine.launched, 1);
}

TEST(FaultBeforeInGroup, NestedGroupsReturnTheCodeFromTheOutermostEnd) {
  App app(FunctionId::kAllReduce, 1, error_act(ncclSystemError));
  app.group_start();
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSystemError);
  EXPECT_EQ(app.group_end(), ncclSystemError);
  EXPECT_EQ(app.engine.launched, 0);
  EXPECT_EQ(app.engine.depth, 0);
}

TEST(FaultAfterInGroup, TheGroupRunsAndThenTheCodeComes) {
  App app(FunctionId::kAllReduce, 1, error_act(ncclSystemError, Moment::kAfter));
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSystemError);
  EXPECT_EQ(app.engine.launched, 1);
}

TEST(FaultOnGroupEnd, BeforeDropsTheGroupAndKeepsTheDepthBalanced) {
  App app(FunctionId::kGroupEnd, 1, error_act(ncclSystemError));
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSystemError);
  EXPECT_EQ(app.engine.launched, 0);
  EXPECT_EQ(app.engine.depth, 0);
}

TEST(AsyncError, IsLatchedOnlyOnANonBlockingCommunicatorUntilItIsDestroyed) {
  App blocking(FunctionId::kAllReduce, 1, error_act(ncclSystemError));
  blocking.all_reduce();
  EXPECT_EQ(blocking.async_error(), ncclSuccess);

  App app(FunctionId::kAllReduce, 1, error_act(ncclSystemError));
  app.nonblocking = true;
  app.all_reduce();
  EXPECT_EQ(app.async_error(), ncclSystemError);
  app.destroy();
  EXPECT_EQ(app.async_error(), ncclSuccess);
}

}  // namespace
}  // namespace sabot::layer
