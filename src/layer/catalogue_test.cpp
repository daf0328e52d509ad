// Every action but error, at one call: what reaches the library, what is put on the stream around
// it, what the application is told.
#include <csignal>

#include "layer/fault_fixture.hpp"

namespace sabot::layer {
namespace {

using scenario::Act;
using scenario::ActionKind;
using scenario::Moment;
using Order = std::vector<std::string>;

Act wait_act(ActionKind kind, std::uint64_t duration_ns, bool on_host) {
  Act act = act_of_kind(kind);
  act.duration_ns = duration_ns;
  act.on_host = on_host;
  return act;
}

Act async_act(ncclResult_t result, std::uint64_t after_ns = 0) {
  Act act = act_of_kind(ActionKind::kAsyncError);
  act.result = result;
  act.duration_ns = after_ns;
  return act;
}

Act corrupt_act(Moment moment) {
  Act act = act_of_kind(ActionKind::kCorrupt, moment);
  act.corrupt = scenario::CorruptKind::kZero;
  return act;
}

std::uint64_t now_ns() { return run::now().monotonic_ns; }

TEST(Delay, OnTheHostHoldsTheCallerForItsDurationAndThenCalls) {
  App app(FunctionId::kAllReduce, 1, wait_act(ActionKind::kDelay, 3'000'000, true));
  const std::uint64_t begin = now_ns();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_GE(now_ns() - begin, 3'000'000U);
  EXPECT_EQ(app.streams.order, Order{"AllReduce"});
}

TEST(Delay, OnTheStreamIsPutInFrontOfTheWorkAndHoldsNoCaller) {
  App app(FunctionId::kAllReduce, 1, wait_act(ActionKind::kDelay, 5'000'000'000, false));
  const std::uint64_t begin = now_ns();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_LT(now_ns() - begin, 4'000'000'000U);
  EXPECT_EQ(app.streams.order, (Order{"hold 5000000000", "AllReduce"}));
}

TEST(Delay, OnAStreamWithoutOrderHoldsTheCaller) {
  App app(FunctionId::kAllReduce, 1, wait_act(ActionKind::kDelay, 3'000'000, false));
  app.streams.immediate = true;
  const std::uint64_t begin = now_ns();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_GE(now_ns() - begin, 3'000'000U);
  EXPECT_EQ(app.streams.order, Order{"AllReduce"});
}

TEST(Hang, OnTheStreamHasNoLimitUntilTheCommunicatorEnds) {
  App app(FunctionId::kAllReduce, 1, wait_act(ActionKind::kHang, 0, false));
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.streams.order, (Order{"hold 0", "AllReduce"}));
  EXPECT_EQ(app.streams.holds[0]->state(), Hold::kHeld);
  app.destroy();
  EXPECT_EQ(app.streams.holds[0]->state(), Hold::kLetGo) << "what destroy waits for is done first";
}

TEST(Hang, ThatCannotBePutOnTheStreamIsRefusedAndTheCallIsMade) {
  App app(FunctionId::kAllReduce, 1, wait_act(ActionKind::kHang, 0, false));
  app.streams.refusal = "the stream is being captured";
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.streams.order, Order{"AllReduce"});
  EXPECT_EQ(app.plan.refused, Order{"the stream is being captured"});
}

TEST(Skip, ReportsSuccessAndAsksNobody) {
  App app(FunctionId::kAllReduce, 1, act_of_kind(ActionKind::kSkip));
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.seen, Order{});
}

TEST(Skip, OfAGroupsEndIsRefused) {
  App app(FunctionId::kGroupEnd, 1, act_of_kind(ActionKind::kSkip));
  app.group_start();
  app.all_reduce();
  EXPECT_EQ(app.group_end(), ncclSuccess);
  EXPECT_EQ(app.engine.launched, 1);
  ASSERT_EQ(app.plan.refused.size(), 1U);
  EXPECT_NE(app.plan.refused[0].find("skip its calls"), std::string::npos);
}

TEST(Exhaust, ReturnsTheCodeOfItsShortageUnforwarded) {
  Act act = act_of_kind(ActionKind::kExhaust);
  act.result = ncclUnhandledCudaError;
  App app(FunctionId::kAllReduce, 1, act);
  EXPECT_EQ(app.all_reduce(), ncclUnhandledCudaError);
  EXPECT_EQ(app.engine.seen, Order{});
}

TEST(AsyncErrorFault, TheCallSucceedsItsStreamIsHeldAndTheCodeComesFromThenOn) {
  App app(FunctionId::kAllReduce, 1, async_act(ncclRemoteError));
  EXPECT_EQ(app.async_error(), ncclSuccess);
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.streams.order, (Order{"hold 0", "AllReduce"}));
  EXPECT_EQ(app.async_error(), ncclRemoteError);
  EXPECT_EQ(app.all_reduce(), ncclRemoteError);
  EXPECT_EQ(app.last_error(), "injected by the test");
  EXPECT_EQ(app.engine.launched, 1);
  app.abort();
  EXPECT_EQ(app.streams.holds[0]->state(), Hold::kEnded);
  EXPECT_EQ(app.async_error(), ncclSuccess) << "the address may belong to another one soon";
}

TEST(AsyncErrorFault, WhereNoStreamCanBeHeldTheWorkIsNotBegun) {
  App app(FunctionId::kAllReduce, 1, async_act(ncclRemoteError));
  app.streams.immediate = true;
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.seen, Order{});
  EXPECT_EQ(app.async_error(), ncclRemoteError);
}

TEST(AsyncErrorFault, MayBeDueLater) {
  App app(FunctionId::kAllReduce, 1, async_act(ncclRemoteError, 3'600'000'000'000));
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.async_error(), ncclSuccess);
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
}

TEST(Corrupt, TheInputIsChangedBeforeTheCallAndPutBackAfterIt) {
  App app(FunctionId::kAllReduce, 1, corrupt_act(Moment::kBefore));
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.streams.order, (Order{"corrupt input", "AllReduce", "restore"}));
}

TEST(Corrupt, TheOutputIsChangedAfterTheCallIfThatWasMade) {
  App app(FunctionId::kAllReduce, 1, corrupt_act(Moment::kAfter));
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.streams.order, (Order{"AllReduce", "corrupt output"}));
  app.plan.fire(FunctionId::kAllReduce, 2, corrupt_act(Moment::kAfter));
  app.engine.answer = ncclSystemError;
  app.streams.order.clear();
  EXPECT_EQ(app.all_reduce(), ncclSystemError);
  EXPECT_EQ(app.streams.order, Order{"AllReduce"});
}

TEST(Mismatch, TheLibraryGetsTheOtherCount) {
  Act act = act_of_kind(ActionKind::kMismatch);
  act.mismatch = scenario::MismatchKind::kCount;
  act.to_number = 3;
  App app(FunctionId::kAllReduce, 1, act);
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.count, 3U);
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.count, 4U);
}

TEST(Mismatch, IsRefusedBeforeTheRealLibraryWhileTheStreamIsCaptured) {
  Act act = act_of_kind(ActionKind::kMismatch);
  act.mismatch = scenario::MismatchKind::kCount;
  act.to_number = 3;
  App app(true);
  app.plan.fire(FunctionId::kAllReduce, 1, act);
  app.plan.fire(FunctionId::kAllReduce, 2, act);
  app.streams.is_captured = true;
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.count, 4U);
  EXPECT_EQ(app.plan.refused,
            Order{"ncclAllReduce is left as it is: its stream is being captured, and NCCL lets "
                  "peers write into the buffers of a graph"});
  app.streams.is_captured = false;
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.count, 3U);
}

TEST(Link, IsRefusedWhereNothingOfOursCarriesTheBytes) {
  App app(FunctionId::kAllReduce, 1, act_of_kind(ActionKind::kLink));
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.plan.refused, Order{"nothing of Sabot's carries the bytes of this communicator"});
}

struct RecordingLinks final : LinkEffects {
  Order seen;
  Status apply(const Act&, const Call&, FaultId) override {
    return seen.push_back("apply"), Status();
  }
  void release(FaultId) override { seen.push_back("release"); }
  void release_all() override { seen.push_back("release all"); }
  void forget(const void*) override { seen.push_back("forget"); }
};

TEST(Link, IsAppliedToTheCommunicatorAndForgottenWithIt) {
  Engine engine;
  Plan plan;
  RecordingLinks links;
  FaultSeams seams;
  seams.links[0] = &links;
  FaultLayer layer({&engine.table, &engine}, plan, seams);
  plan.fire(FunctionId::kBroadcast, 1, act_of_kind(ActionKind::kLink));
  Call call;
  call.function = FunctionId::kBroadcast;
  call.nth = 1;
  call.comm = App::comm();
  layer.api().table->Broadcast(&layer, &call, nullptr, nullptr, 1, ncclInt8, 0, App::comm(),
                               nullptr);
  call.function = FunctionId::kCommDestroy;
  layer.api().table->CommDestroy(&layer, &call, App::comm());
  EXPECT_EQ(links.seen, (Order{"apply", "forget"}));
}

TEST(Crash, BeforeTheCallEndsTheProcessWithTheExitCode) {
  Act act = act_of_kind(ActionKind::kCrash);
  act.crash = scenario::CrashKind::kExit;
  act.crash_value = 17;
  App app(FunctionId::kAllReduce, 1, act);
  EXPECT_EXIT(app.all_reduce(), testing::ExitedWithCode(17), "");
}

TEST(Crash, ByASignalIsNotKeptFromTheKernelByAHandler) {
  Act act = act_of_kind(ActionKind::kCrash, Moment::kAfter);
  act.crash = scenario::CrashKind::kSignal;
  act.crash_value = SIGTERM;
  App app(FunctionId::kAllReduce, 1, act);
  EXPECT_EXIT(
      {
        std::signal(SIGTERM, [](int) { ::_exit(1); });
        app.all_reduce();
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(Several, ActInTheirOrderAroundOneCall) {
  App app(FunctionId::kAllReduce, 1, corrupt_act(Moment::kBefore));
  app.plan.fire(FunctionId::kAllReduce, 1, error_act(ncclSystemError, Moment::kAfter));
  app.plan.fire(FunctionId::kAllReduce, 1, wait_act(ActionKind::kDelay, 1'000'000'000, false));
  EXPECT_EQ(app.all_reduce(), ncclSystemError);
  EXPECT_EQ(app.streams.order, (Order{"hold 1000000000", "corrupt input", "AllReduce", "restore"}));
}

// ---- In a group ----

TEST(InGroup, StreamEffectsGoOnTheStreamAtTheCallAndTheRestAfterTheOutermostEnd) {
  App app(FunctionId::kAllReduce, 1, wait_act(ActionKind::kHang, 0, false));
  app.plan.fire(FunctionId::kAllReduce, 2, corrupt_act(Moment::kBefore));
  app.plan.fire(FunctionId::kAllReduce, 2, corrupt_act(Moment::kAfter));
  app.group_start();
  app.group_start();
  app.all_reduce();
  app.all_reduce();
  EXPECT_EQ(app.group_end(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSuccess);
  EXPECT_EQ(app.streams.order, (Order{"hold 0", "AllReduce", "corrupt input", "AllReduce",
                                      "GroupEnd", "GroupEnd", "restore", "corrupt output"}));
}

TEST(InGroup, OnAStreamWithoutOrderEffectsGoAroundTheOutermostEnd) {
  App app(FunctionId::kAllReduce, 1, corrupt_act(Moment::kBefore));
  app.streams.immediate = true;
  app.group_start();
  app.all_reduce();
  EXPECT_EQ(app.group_end(), ncclSuccess);
  EXPECT_EQ(app.streams.order, (Order{"AllReduce", "corrupt input", "GroupEnd", "restore"}));
}

TEST(InGroup, SkipLeavesThatCallOut) {
  App app(FunctionId::kAllReduce, 1, act_of_kind(ActionKind::kSkip));
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSuccess);
  EXPECT_EQ(app.engine.launched, 1);
}

TEST(InGroup, AnAsynchronousErrorIsReportedFromTheOutermostEndOn) {
  App app(FunctionId::kAllReduce, 1, async_act(ncclRemoteError));
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.async_error(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSuccess);
  EXPECT_EQ(app.async_error(), ncclRemoteError);
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclRemoteError);
  EXPECT_EQ(app.group_end(), ncclRemoteError);
  EXPECT_EQ(app.engine.launched, 1);
}

TEST(InGroup, MismatchChangesThatCall) {
  Act act = act_of_kind(ActionKind::kMismatch);
  act.mismatch = scenario::MismatchKind::kCount;
  act.to_number = 2;
  App app(FunctionId::kAllReduce, 1, act);
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.count, 2U);
  EXPECT_EQ(app.group_end(), ncclSuccess);
}

}  // namespace
}  // namespace sabot::layer
