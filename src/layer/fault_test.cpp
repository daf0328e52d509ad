// The fault layer over an engine that counts: what is forwarded, what the application is told, and
// when.
#include "layer/fault.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sabot::layer {
namespace {

using abi::Call;
using abi::FunctionId;

// An engine with NCCL's group rule: a wrong call in a group is remembered and nothing is launched.
struct Engine {
  std::vector<std::string> seen;
  int launched = 0;
  int pending = 0;
  int depth = 0;
  bool group_failed = false;
  abi::ApiTable table{};

  Engine() {
    table.AllReduce = [](void* self, Call*, const void*, void*, size_t, ncclDataType_t, ncclRedOp_t,
                         ncclComm_t, cudaStream_t) { return enqueue(self, "AllReduce", true); };
    table.Broadcast = [](void* self, Call*, const void*, void*, size_t, ncclDataType_t, int root,
                         ncclComm_t,
                         cudaStream_t) { return enqueue(self, "Broadcast", root >= 0); };
    table.GroupStart = [](void* self, Call*) {
      ++static_cast<Engine*>(self)->depth;
      return ncclSuccess;
    };
    table.GroupEnd = [](void* self, Call*) { return static_cast<Engine*>(self)->end(); };
    table.CommGetAsyncError = [](void*, Call*, ncclComm_t, ncclResult_t* out) {
      *out = ncclSuccess;
      return ncclSuccess;
    };
    table.GetLastError = [](void*, Call*, ncclComm_t) { return "the library's own text"; };
    table.CommDestroy = [](void*, Call*, ncclComm_t) { return ncclSuccess; };
  }
  static ncclResult_t enqueue(void* self, const char* name, bool valid) {
    auto* engine = static_cast<Engine*>(self);
    engine->seen.emplace_back(name);
    if (!valid) return engine->group_failed = true, ncclInvalidArgument;
    engine->depth > 0 ? ++engine->pending : ++engine->launched;
    return ncclSuccess;
  }
  ncclResult_t end() {
    if (--depth > 0) return ncclSuccess;
    const bool failed = std::exchange(group_failed, false);
    const int held = std::exchange(pending, 0);
    if (failed) return ncclInvalidArgument;
    launched += held;
    return ncclSuccess;
  }
};

struct Plan final : FaultPlan {
  FunctionId function;
  Firing firing;
  std::uint64_t nth;
  Plan(FunctionId on, std::uint64_t number, ncclResult_t result, bool before)
      : function(on), firing{result, before, "injected by the test"}, nth(number) {
    FunctionSet set{};
    add(set, on);
    set_concerns(set);
  }
  std::optional<Firing> consider(const Call& call) override {
    if (call.function != function || call.nth != nth) return std::nullopt;
    return firing;
  }
};

struct App {
  Engine engine;
  Plan plan;
  FaultLayer layer;
  Call call;
  int depth = 0;
  std::uint64_t groups = 0;
  std::uint64_t numbers[abi::kFunctionCount] = {};
  bool nonblocking = false;

  App(FunctionId on, std::uint64_t nth, bool before, ncclResult_t result = ncclSystemError)
      : plan(on, nth, result, before), layer({&engine.table, &engine}, plan) {}
  ~App() { call::clear_last_error(); }

  Call* enter(FunctionId function) {
    call = Call{};
    call.function = function;
    call.comm = comm();
    call.nth = ++numbers[static_cast<int>(function)];
    call.group_depth = depth;
    call.group = depth > 0 ? groups : 0;
    call.nonblocking = nonblocking;
    return &call;
  }
  static ncclComm_t comm() { return reinterpret_cast<ncclComm_t>(0x40); }
  abi::Api api() { return layer.api(); }
  ncclResult_t all_reduce() {
    return api().table->AllReduce(api().self, enter(FunctionId::kAllReduce), nullptr, nullptr, 1,
                                  ncclFloat, ncclSum, comm(), nullptr);
  }
  ncclResult_t group_start() {
    const ncclResult_t result = api().table->GroupStart(api().self, enter(FunctionId::kGroupStart));
    if (result == ncclSuccess && depth++ == 0) ++groups;
    return result;
  }
  ncclResult_t group_end() {
    const ncclResult_t result = api().table->GroupEnd(api().self, enter(FunctionId::kGroupEnd));
    --depth;
    return result;
  }
  ncclResult_t async_error() {
    ncclResult_t out = ncclInternalError;
    api().table->CommGetAsyncError(api().self, enter(FunctionId::kCommGetAsyncError), comm(), &out);
    return out;
  }
  std::string last_error() {
    return api().table->GetLastError(api().self, enter(FunctionId::kGetLastError), nullptr);
  }
};

TEST(FaultBefore, ReturnsTheCodeWithoutCallingTheLibraryAndExplainsItself) {
  App app(FunctionId::kAllReduce, 2, true);
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.last_error(), "the library's own text");
  EXPECT_EQ(app.all_reduce(), ncclSystemError);
  EXPECT_EQ(app.last_error(), "injected by the test");
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.launched, 2);
}

TEST(FaultAfter, LetsTheLibraryWorkAndThenReturnsTheCode) {
  App app(FunctionId::kAllReduce, 1, false, ncclRemoteError);
  EXPECT_EQ(app.all_reduce(), ncclRemoteError);
  EXPECT_EQ(app.engine.launched, 1);
}

TEST(FaultBeforeInGroup, TheCallSucceedsNothingIsLaunchedAndTheOutermostGroupEndReturnsTheCode) {
  App app(FunctionId::kAllReduce, 2, true);
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
  App app(FunctionId::kAllReduce, 1, true);
  app.group_start();
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSystemError);
  EXPECT_EQ(app.group_end(), ncclSystemError);
  EXPECT_EQ(app.engine.launched, 0);
  EXPECT_EQ(app.engine.depth, 0);
}

TEST(FaultAfterInGroup, TheGroupRunsAndThenTheCodeComes) {
  App app(FunctionId::kAllReduce, 1, false);
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSystemError);
  EXPECT_EQ(app.engine.launched, 1);
}

TEST(FaultOnGroupEnd, BeforeDropsTheGroupAndKeepsTheDepthBalanced) {
  App app(FunctionId::kGroupEnd, 1, true);
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.group_end(), ncclSystemError);
  EXPECT_EQ(app.engine.launched, 0);
  EXPECT_EQ(app.engine.depth, 0);
}

TEST(AsyncError, IsLatchedOnlyOnANonBlockingCommunicatorUntilItIsDestroyed) {
  App blocking(FunctionId::kAllReduce, 1, true);
  blocking.all_reduce();
  EXPECT_EQ(blocking.async_error(), ncclSuccess);

  App app(FunctionId::kAllReduce, 1, true);
  app.nonblocking = true;
  app.all_reduce();
  EXPECT_EQ(app.async_error(), ncclSystemError);
  app.api().table->CommDestroy(app.api().self, app.enter(FunctionId::kCommDestroy), app.comm());
  EXPECT_EQ(app.async_error(), ncclSuccess);
}

}  // namespace
}  // namespace sabot::layer
