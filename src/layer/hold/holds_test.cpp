// Waits that faults made, and everything that ends them (B18; C8).
#include "layer/hold/holds.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "layer/fault_fixture.hpp"
#include "run/control_writer.hpp"
#include "run/scratch_folder_test.hpp"

namespace sabot::layer {
namespace {

using scenario::Act;
using scenario::ActionKind;

// Longer than a loaded machine may keep a thread from running; bounds a test that fails.
constexpr std::uint64_t kPatience_ns = 20'000'000'000;

template <typename Condition>
bool comes_true(Condition condition) {
  const std::uint64_t deadline = run::now().monotonic_ns + kPatience_ns;
  while (!condition()) {
    if (run::now().monotonic_ns > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

Act hang(bool on_host, std::uint64_t limit_ns = 0) {
  Act act = act_of_kind(ActionKind::kHang);
  act.on_host = on_host;
  act.duration_ns = limit_ns;
  return act;
}

// An AllReduce in a thread of its own.
struct Caller {
  explicit Caller(App& app)
      : thread([this, &app] {
          result = app.all_reduce();
          is_back = true;
        }) {}
  ~Caller() { thread.join(); }
  std::atomic<bool> is_back{false};
  ncclResult_t result = ncclSuccess;
  std::thread thread;
};

TEST(HeldCall, IsNotMadeOnceItsCommunicatorIsAbortedAndTheAbortComesAfterIt) {
  App app(FunctionId::kAllReduce, 1, hang(true));
  {
    Caller caller(app);
    EXPECT_TRUE(comes_true([&] { return app.layer.holds().held_calls(App::comm()) == 1; }));
    EXPECT_FALSE(caller.is_back);
    EXPECT_EQ(app.abort(), ncclSuccess);
    EXPECT_TRUE(comes_true([&] { return caller.is_back.load(); }));
    EXPECT_EQ(caller.result, ncclInternalError);
  }
  EXPECT_EQ(app.engine.seen, std::vector<std::string>{"CommAbort"});
}

TEST(HeldCall, OfDestroyAndFinalizeToo) {
  for (const bool is_destroyed : {true, false}) {
    App app(FunctionId::kAllReduce, 1, hang(true));
    Caller caller(app);
    EXPECT_TRUE(comes_true([&] { return app.layer.holds().held_calls(App::comm()) == 1; }));
    EXPECT_EQ(is_destroyed ? app.destroy() : app.finalize(), ncclSuccess);
    EXPECT_TRUE(comes_true([&] { return caller.is_back.load(); }));
    EXPECT_EQ(caller.result, ncclInternalError);
  }
}

TEST(HeldCall, OfAnotherCommunicatorStaysHeld) {
  App app(FunctionId::kAllReduce, 1, hang(true));
  Caller caller(app);
  EXPECT_TRUE(comes_true([&] { return app.layer.holds().held_calls(App::comm()) == 1; }));
  app.layer.holds().ending(&app, Ending::kAbort);
  app.layer.holds().ended(&app);
  EXPECT_FALSE(caller.is_back);
  EXPECT_EQ(app.layer.holds().held_calls(App::comm()), 1U);
  app.abort();
}

TEST(HeldCall, GoesOnWhenItsTimeIsOver) {
  App app(FunctionId::kAllReduce, 1, hang(true, 2'000'000));
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(app.engine.launched, 1);
}

TEST(HeldCall, IsNoLongerHeldWhileItIsMade) {
  App app(FunctionId::kAllReduce, 1, hang(true, 1'000'000));
  std::size_t held = 99;
  app.engine.meanwhile = [&] { held = app.layer.holds().held_calls(App::comm()); };
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  EXPECT_EQ(held, 0U) << "an abort would wait for it";
}

TEST(HeldCall, AtTheEndOfAGroupEndsWithACommunicatorThatHasWorkInIt) {
  App app(FunctionId::kGroupEnd, 1, hang(false));
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  std::thread aborter([&] {
    EXPECT_TRUE(comes_true([&] { return app.layer.holds().held_calls(App::comm()) == 1; }));
    app.layer.holds().ending(App::comm(), Ending::kAbort);
  });
  EXPECT_EQ(app.group_end(), ncclInternalError);
  aborter.join();
  EXPECT_EQ(app.engine.launched, 0);
  EXPECT_EQ(app.engine.depth, 0);
}

TEST(HeldCall, InAGroupThatIsCutOffLaunchesNothingAndTouchesTheCommunicatorNoMore) {
  App app(FunctionId::kAllReduce, 2, hang(true));
  app.group_start();
  EXPECT_EQ(app.all_reduce(), ncclSuccess);
  ncclResult_t held = ncclSuccess;
  std::thread aborter([&] {
    EXPECT_TRUE(comes_true([&] { return app.layer.holds().held_calls(App::comm()) == 1; }));
    app.layer.holds().ending(App::comm(), Ending::kAbort);
  });
  held = app.all_reduce();
  aborter.join();
  EXPECT_EQ(held, ncclInternalError);
  EXPECT_EQ(app.group_end(), ncclInternalError);
  EXPECT_EQ(app.engine.launched, 0);
  EXPECT_EQ(app.engine.seen, (std::vector<std::string>{"AllReduce", "CommInitRank"}));
}

TEST(HeldCall, ThatBeginsWhenItsCommunicatorHasJustEndedIsOverAtOnce) {
  Engine engine;
  Plan plan;
  Streams streams;
  FaultSeams seams = App::seams_of(streams);
  seams.is_gone = [](const void* comm) { return comm == App::comm(); };
  FaultLayer layer({&engine.table, &engine}, plan, seams);
  plan.fire(FunctionId::kAllReduce, 1, hang(true));
  Call call;
  call.function = FunctionId::kAllReduce;
  call.nth = 1;
  call.comm = App::comm();
  EXPECT_EQ(layer.api().table->AllReduce(&layer, &call, nullptr, nullptr, 1, ncclInt8, ncclSum,
                                         App::comm(), nullptr),
            ncclInternalError);
  EXPECT_TRUE(engine.seen.empty());
}

TEST(HeldCall, ThatEndsItsCommunicatorIsMadeWhenItsTimeIsOver) {
  Engine engine;
  Plan plan;
  Streams streams;
  FaultSeams seams = App::seams_of(streams);
  seams.is_gone = [](const void*) { return true; };  // the boundary retires it before we are asked
  FaultLayer layer({&engine.table, &engine}, plan, seams);
  Act brief = hang(true);
  brief.duration_ns = 1'000'000;
  plan.fire(FunctionId::kCommDestroy, 1, brief);
  Call call;
  call.function = FunctionId::kCommDestroy;
  call.nth = 1;
  call.comm = App::comm();
  EXPECT_EQ(layer.api().table->CommDestroy(&layer, &call, App::comm()), ncclSuccess);
  EXPECT_EQ(engine.seen, (std::vector<std::string>{"CommDestroy"}));
}

TEST(HeldStream, WaitsForAnAbortToBeOver) {
  App app(FunctionId::kAllReduce, 1, hang(false));
  app.all_reduce();
  Hold& hold = *app.streams.holds.at(0);
  app.layer.holds().ending(App::comm(), Ending::kAbort);
  EXPECT_EQ(hold.state(), Hold::kAborting);
  app.layer.holds().ended(App::comm());
  EXPECT_EQ(hold.state(), Hold::kEnded);
  EXPECT_FALSE(wait_for(hold, [] { return false; }));
}

TEST(HeldStream, IsLetGoAtTheEndOfTheProcess) {
  App app(FunctionId::kAllReduce, 1, hang(false));
  app.all_reduce();
  app.layer.holds().let_go_all();
  EXPECT_EQ(app.streams.holds.at(0)->state(), Hold::kLetGo);
  EXPECT_TRUE(wait_for(*app.streams.holds.at(0), [] { return false; }));
}

TEST(HeldStream, OfTheParentIsNotTouchedInAForkedChild) {
  App app(FunctionId::kAllReduce, 1, hang(false));
  app.all_reduce();
  app.layer.holds().forget();
  app.abort();
  EXPECT_EQ(app.streams.holds.at(0)->state(), Hold::kHeld);
}

// With a control page that another one, as the launcher would, writes.
struct ControlledHolds : run::ScratchFolder {
  std::optional<run::ControlWriter> writer;
  run::Control control;
  Holds holds;
  Call call;

  void SetUp() override {
    run::ScratchFolder::SetUp();
    const run::ControlNames names{{"slow"}, {}, ~std::uint64_t{0}};
    Result<run::ControlWriter> opened = run::ControlWriter::open(path_, names);
    ASSERT_TRUE(opened.ok());
    writer.emplace(*std::move(opened));
    ASSERT_TRUE(control.open(path_, names).ok());
    holds.set_control(control);
    call.comm = App::comm();
    call.world_rank = 3;
  }
  std::shared_ptr<Hold> hold_stream(FaultId fault) {
    return holds.add(std::make_shared<std::atomic<std::uint32_t>>(0), call, fault, 0);
  }
};

TEST_F(ControlledHolds, AHeldCallGoesOnWhenItsFaultIsReleased) {
  std::atomic<bool> was_let_go{false};
  std::thread caller([&] {
    Holds::Stay stay(holds, call, {0, 0}, 0);
    was_let_go = stay.stay();
  });
  EXPECT_TRUE(comes_true([&] { return holds.held_calls(App::comm()) == 1; }));
  writer->release({0, 0});
  caller.join();
  EXPECT_TRUE(was_let_go);
}

TEST_F(ControlledHolds, HeldStreamsAreReleasedWithoutAnyCallAndListedMeanwhile) {
  const auto hold = hold_stream({0, 0});
  const auto injected = hold_stream({run::kControlPlansMax + 1, 0});
  const std::vector<run::HeldCall> held = writer->held();
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].world_rank, 3);
  writer->release({0, 0});
  EXPECT_TRUE(comes_true([&] { return hold->state() == Hold::kLetGo; }));
  EXPECT_EQ(injected->state(), Hold::kHeld);
  writer->release_all();
  EXPECT_TRUE(comes_true([&] { return injected->state() == Hold::kLetGo; }));
}

TEST_F(ControlledHolds, WhatElseAFaultBeganIsStoppedOnce) {
  int stopped = 0;
  std::atomic<bool> is_stopped{false};
  holds.note(call, {0, 0}, [&] { ++stopped, is_stopped = true; });
  writer->release({0, 0});
  EXPECT_TRUE(comes_true([&] { return is_stopped.load(); }));
  writer->release({0, 0});
  const auto later = hold_stream({0, 0});
  writer->release({0, 0});
  EXPECT_TRUE(comes_true([&] { return later->state() == Hold::kLetGo; }));
  EXPECT_EQ(stopped, 1);
}

}  // namespace
}  // namespace sabot::layer
