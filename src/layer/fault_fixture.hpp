// A fault layer over an engine that counts, with streams that remember what was put on them.
//
// The engine has NCCL's group rule; the plan fires what a test tells it to, by function and number;
// the streams are a list of texts in the order in which things were put there. For the tests of the
// fault layer only.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "layer/fault.hpp"
#include "run/identity.hpp"

namespace sabot::layer {

using abi::Call;
using abi::FunctionId;

// An engine with NCCL's group rule: a wrong call in a group is remembered and nothing is launched.
struct Engine {
  std::vector<std::string> seen;
  std::vector<std::string>* order = nullptr;  // shared with the streams
  int launched = 0;
  int pending = 0;
  int depth = 0;
  bool group_failed = false;
  ncclResult_t answer = ncclSuccess;  // of what is enqueued
  std::function<void()> meanwhile;    // called while it enqueues
  abi::ApiTable table{};

  Engine() {
    table.AllReduce = [](void* self, Call*, const void*, void*, size_t elements, ncclDataType_t,
                         ncclRedOp_t, ncclComm_t, cudaStream_t) {
      static_cast<Engine*>(self)->count = elements;
      return enqueue(self, "AllReduce", true);
    };
    table.Broadcast = [](void* self, Call*, const void*, void*, size_t, ncclDataType_t, int root,
                         ncclComm_t,
                         cudaStream_t) { return enqueue(self, "Broadcast", root >= 0); };
    table.CommInitRank = [](void* self, Call*, ncclComm_t*, int ranks, ncclUniqueId, int) {
      return enqueue(self, "CommInitRank", ranks > 0);
    };
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
    table.CommDestroy = [](void* self, Call*, ncclComm_t) { return said(self, "CommDestroy"); };
    table.CommAbort = [](void* self, Call*, ncclComm_t) { return said(self, "CommAbort"); };
    table.CommFinalize = [](void* self, Call*, ncclComm_t) { return said(self, "CommFinalize"); };
  }
  static ncclResult_t said(void* self, const char* name) {
    auto* engine = static_cast<Engine*>(self);
    engine->seen.emplace_back(name);
    if (engine->order != nullptr) engine->order->emplace_back(name);
    return ncclSuccess;
  }
  static ncclResult_t enqueue(void* self, const char* name, bool valid) {
    auto* engine = static_cast<Engine*>(self);
    said(self, name);
    if (engine->meanwhile) engine->meanwhile();
    if (!valid) return engine->group_failed = true, ncclInvalidArgument;
    engine->depth > 0 ? ++engine->pending : ++engine->launched;
    return engine->answer;
  }
  ncclResult_t end() {
    if (order != nullptr) order->emplace_back("GroupEnd");
    if (--depth > 0) return ncclSuccess;
    const bool failed = std::exchange(group_failed, false);
    const int held = std::exchange(pending, 0);
    if (failed) return ncclInvalidArgument;
    launched += held;
    return ncclSuccess;
  }
  std::size_t count = 0;  // of the last AllReduce
};

// Streams as a list of what was put on them, in order with the engine's calls.
struct Streams final : StreamEffects {
  std::vector<std::string> order;
  std::vector<std::shared_ptr<Hold>> holds;
  bool immediate = false;
  bool is_captured = false;
  std::string refusal;  // of hold(); empty: none

  bool is_immediate(const Call&) const override { return immediate; }
  Status hold(const Call&, std::shared_ptr<Hold> hold) override {
    if (!refusal.empty()) return Error(Code::kUnsupported, refusal);
    order.push_back("hold " + std::to_string(hold->limit_ns));
    holds.push_back(std::move(hold));
    return {};
  }
  Result<std::unique_ptr<Undo>> corrupt(const Call&, const CorruptionPlan& plan) override {
    order.push_back(plan.at_entry ? "corrupt input" : "corrupt output");
    if (plan.kept == 0) return std::unique_ptr<Undo>();
    return std::make_unique<Undo>();
  }
  Status restore(const Call&, std::unique_ptr<Undo>) override {
    order.emplace_back("restore");
    return {};
  }
  Result<bool> captured(const void*) override { return is_captured; }
};

struct Plan final : FaultPlan {
  struct Row {
    FunctionId function;
    std::uint64_t nth;
    Firing firing;
  };
  std::vector<Row> rows;
  std::vector<std::string> refused;
  FunctionSet functions{};

  void fire(FunctionId on, std::uint64_t nth, const scenario::Act& act) {
    const FaultId fault{0, static_cast<std::uint32_t>(rows.size())};
    rows.push_back({on, nth, {act, 7, fault, "injected by the test"}});
    add(functions, on);
    set_concerns(functions);
  }
  void consider(const Call& call, Firings& firings) override {
    for (const Row& row : rows)
      if (row.function == call.function && row.nth == call.nth) firings.add(row.firing);
  }
  void refuse(const Call&, const Firing&, const std::string& why) override {
    refused.push_back(why);
  }
};

inline scenario::Act act_of_kind(scenario::ActionKind kind,
                                 scenario::Moment moment = scenario::Moment::kBefore) {
  scenario::Act act;
  act.kind = kind;
  act.moment = moment;
  return act;
}
inline scenario::Act error_act(ncclResult_t result,
                               scenario::Moment moment = scenario::Moment::kBefore) {
  scenario::Act act = act_of_kind(scenario::ActionKind::kError, moment);
  act.result = result;
  return act;
}

struct App {
  Engine engine;
  Streams streams;
  Plan plan;
  FaultLayer layer;
  int depth = 0;
  std::uint64_t groups = 0;
  std::uint64_t numbers[abi::kFunctionCount] = {};
  bool nonblocking = false;
  float input[4] = {1, 2, 3, 4};
  float output[4] = {};

  explicit App(bool is_real = false)
      : layer({&engine.table, &engine}, plan, seams_of(streams, is_real)) {
    engine.order = &streams.order;
  }
  App(FunctionId on, std::uint64_t nth, const scenario::Act& act) : App() {
    plan.fire(on, nth, act);
  }
  ~App() { call::clear_last_error(); }

  static FaultSeams seams_of(Streams& streams, bool is_real = false) {
    FaultSeams seams;
    seams.is_real[0] = is_real;
    seams.streams[0] = &streams;
    return seams;
  }
  Call enter(FunctionId function) {
    Call call;
    call.function = function;
    call.comm = comm();
    call.comm_ranks = 2;
    call.rank = call.world_rank = 0;
    call.nth = ++numbers[static_cast<int>(function)];
    call.group_depth = depth;
    call.group = depth > 0 ? groups : 0;
    call.nonblocking = nonblocking;
    return call;
  }
  static ncclComm_t comm() { return reinterpret_cast<ncclComm_t>(0x40); }
  abi::Api api() { return layer.api(); }
  ncclResult_t all_reduce() {
    Call call = enter(FunctionId::kAllReduce);
    call.has_count = true;
    call.count = 4;
    call.bytes = 16;
    call.datatype = ncclFloat;
    call.redop = ncclSum;
    call.send = input;
    call.recv = output;
    return api().table->AllReduce(api().self, &call, input, output, 4, ncclFloat, ncclSum, comm(),
                                  nullptr);
  }
  ncclResult_t group_start() {
    Call call = enter(FunctionId::kGroupStart);
    const ncclResult_t result = api().table->GroupStart(api().self, &call);
    if (result == ncclSuccess && depth++ == 0) ++groups;
    return result;
  }
  ncclResult_t group_end() {
    Call call = enter(FunctionId::kGroupEnd);
    const ncclResult_t result = api().table->GroupEnd(api().self, &call);
    --depth;
    return result;
  }
  ncclResult_t async_error() {
    ncclResult_t out = ncclInternalError;
    Call call = enter(FunctionId::kCommGetAsyncError);
    api().table->CommGetAsyncError(api().self, &call, comm(), &out);
    return out;
  }
  std::string last_error() {
    Call call = enter(FunctionId::kGetLastError);
    return api().table->GetLastError(api().self, &call, nullptr);
  }
  ncclResult_t destroy() {
    Call call = enter(FunctionId::kCommDestroy);
    return api().table->CommDestroy(api().self, &call, comm());
  }
  ncclResult_t abort() {
    Call call = enter(FunctionId::kCommAbort);
    return api().table->CommAbort(api().self, &call, comm());
  }
  ncclResult_t finalize() {
    Call call = enter(FunctionId::kCommFinalize);
    return api().table->CommFinalize(api().self, &call, comm());
  }
};

}  // namespace sabot::layer
