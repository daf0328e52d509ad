// Faults on CUDA streams over the fake driver: what reaches the stream, what the caller keeps, and
// what is left where the driver fails.
#include "layer/effects/cuda_effects.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "driver/fake_driver.hpp"
#include "driver/gpu.hpp"

namespace sabot::layer {
namespace {

using driver::CaptureMode;
using driver::FakeDriver;
using driver::Graph;
using driver::Stream;

constexpr std::size_t kGates = driver::Gpus::kGatesMax - 1;  // one is for warming up
constexpr std::size_t kSaves = driver::Gpus::kSavesMax;

template <typename Condition>
bool comes_true(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class CudaEffectsTest : public testing::Test {
 protected:
  explicit CudaEffectsTest(bool has_memory_operations = true) {
    FakeDriver::Options options;
    options.has_memory_operations = has_memory_operations;
    options.scale = [](std::uint32_t type, std::uint64_t bits, double factor) {
      return scaled(static_cast<DataType>(type), bits, factor);
    };
    auto made = std::make_unique<FakeDriver>(options);
    driver_ = made.get();
    context_ = driver_->activate(0);
    stream_ = driver_->make_stream(context_);
    effects_.emplace(
        [this, owned = std::make_shared<std::unique_ptr<driver::Driver>>(std::move(made))] {
          ++opened_;
          return Result<std::unique_ptr<driver::Driver>>(std::move(*owned));
        },
        [this](const void*) { return Result<int>(device_); });
  }
  ~CudaEffectsTest() override {
    for (const Graph graph : graphs_) driver_->destroy(graph);
    EXPECT_EQ(driver_->capture_mode(), CaptureMode::kGlobal);
    EXPECT_EQ(driver_->context_depth(), 0U);
    EXPECT_EQ(driver_->illegal_count(), 0U);
  }

  static abi::Call call_on(Stream stream) {
    abi::Call call;
    call.stream = stream;
    return call;
  }
  std::shared_ptr<Hold> make_hold(std::uint64_t limit_ns) {
    auto word = effects_->make_word(call_on(stream_));
    EXPECT_TRUE(word.ok());
    return std::make_shared<Hold>(*word, nullptr, FaultId{}, limit_ns);
  }
  std::shared_ptr<Hold> hold(std::uint64_t limit_ns = 0) {
    auto made = make_hold(limit_ns);
    const Status put = effects_->hold(call_on(stream_), made);
    EXPECT_TRUE(put.ok()) << put.error().message();
    return made;
  }
  // Three int32, of which the middle one gets its lowest bit flipped.
  CorruptionPlan flip(std::int32_t* data, std::uint64_t kept) {
    CorruptionPlan plan;
    plan.datatype = DataType::kInt32;
    plan.buffer = data;
    plan.count = 1;
    plan.places[0] = {1, 0xffffffff, 1};
    plan.kept = kept;
    return plan;
  }
  // Destroyed with the test.
  Graph end_capture() {
    graphs_.push_back(driver_->end_capture(stream_));
    return graphs_.back();
  }
  void destroy(Graph graph) {
    driver_->destroy(graph);
    std::erase(graphs_, graph);
  }
  std::size_t gates_free() { return effects_->usage()->gates_free; }
  std::size_t saves_free() { return effects_->usage()->saves_free; }

  FakeDriver* driver_ = nullptr;  // the effects' own
  driver::Context context_ = nullptr;
  Stream stream_ = nullptr;
  int device_ = 0;
  int opened_ = 0;
  std::vector<Graph> graphs_;
  std::optional<CudaEffects> effects_;
};

// --- Holds ---------------------------------------------------------------------------------------

TEST_F(CudaEffectsTest, OpensTheDriverAtTheFirstEffectOnly) {
  EXPECT_EQ(opened_, 0);
  EXPECT_FALSE(effects_->is_immediate(call_on(stream_)));
  EXPECT_EQ(opened_, 0);
  hold()->end(Hold::kLetGo);
  hold()->end(Hold::kLetGo);
  EXPECT_EQ(opened_, 1);
}

TEST_F(CudaEffectsTest, AHeldStreamGoesOnByAStore) {
  bool is_done = false;
  auto held = hold();
  driver_->put(stream_, [&] { is_done = true; });
  driver_->advance(1'000'000'000'000);
  EXPECT_FALSE(is_done);
  held->end(Hold::kAborting);
  driver_->run();
  EXPECT_TRUE(is_done);
  EXPECT_TRUE(comes_true([&] { return held->is_over(); }));
  held.reset();
  EXPECT_TRUE(comes_true([&] { return gates_free() == kGates; }));
  EXPECT_TRUE(comes_true([&] { return !effects_->usage()->is_watching; }));
}

TEST_F(CudaEffectsTest, ALimitLetsGoByItself) {
  auto held = hold(1'000'000);
  driver_->run();  // arrives
  EXPECT_TRUE(comes_true([&] { return held->state() == Hold::kLetGo; }));
  driver_->run();
  EXPECT_TRUE(comes_true([&] { return held->is_over(); }));
}

TEST_F(CudaEffectsTest, ALimitDoesNotBeginBeforeTheStreamArrives) {
  auto first = hold();
  auto second = hold(1);
  driver_->run();
  std::this_thread::yield();
  EXPECT_EQ(second->state(), Hold::kHeld);
  first->end(Hold::kLetGo);
  driver_->run();
  EXPECT_TRUE(comes_true([&] { return second->state() == Hold::kLetGo; }));
  driver_->run();
}

TEST_F(CudaEffectsTest, AThousandHoldsUseNoMoreCellsThanOne) {
  for (int i = 0; i < 1000; ++i) {
    auto held = hold();
    held->end(Hold::kLetGo);
    driver_->run();
    EXPECT_TRUE(comes_true([&] { return held->is_over(); }));
  }
  EXPECT_TRUE(comes_true([&] { return gates_free() == kGates; }));
}

TEST_F(CudaEffectsTest, RefusesMoreHoldsThanItHasCells) {
  std::vector<Hold::Word> words;
  for (std::size_t i = 0; i < kGates; ++i) words.push_back(*effects_->make_word(call_on(stream_)));
  const auto refused = effects_->make_word(call_on(stream_));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(), "streams wait at 4095 holds already");
  words.clear();
  EXPECT_TRUE(effects_->make_word(call_on(stream_)).ok());
}

TEST_F(CudaEffectsTest, RefusesAWordThatNoGpuCanRead) {
  auto word = std::make_shared<std::atomic<std::uint32_t>>(0);
  const Status put = effects_->hold(call_on(stream_),
                                    std::make_shared<Hold>(std::move(word), nullptr, FaultId{}, 0));
  ASSERT_FALSE(put.ok());
  EXPECT_EQ(put.error().message(), "the hold's word is none that a GPU can read");
}

TEST_F(CudaEffectsTest, TheLegacyStreamIsThatOfTheCommunicatorsDevice) {
  auto held = make_hold(0);
  ASSERT_TRUE(effects_->hold(call_on(nullptr), held).ok());
  driver_->run();
  held->end(Hold::kLetGo);
  driver_->run();
  EXPECT_TRUE(comes_true([&] { return held->is_over(); }));
}

TEST_F(CudaEffectsTest, SaysThatTheDeviceOfTheCommunicatorIsNotActive) {
  device_ = 0;
  auto held = make_hold(0);
  driver_->fail("primary_context", Code::kInvalidUsage);
  const Status put = effects_->hold(call_on(nullptr), held);
  ASSERT_FALSE(put.ok());
  EXPECT_EQ(put.error().message(), "primary_context was told to fail");
}

// Whatever fails, the stream is free, the error is told, and nothing waits for an end.
class EachFailure : public CudaEffectsTest,
                    public testing::WithParamInterface<std::pair<const char*, int>> {};

TEST_P(EachFailure, LeavesTheStreamFree) {
  ASSERT_TRUE(effects_->prepare(0).ok());
  driver_->run();
  auto held = make_hold(0);
  driver_->fail(GetParam().first, Code::kCuda, GetParam().second);
  EXPECT_FALSE(effects_->hold(call_on(stream_), held).ok());
  driver_->run();
  EXPECT_TRUE(driver_->is_idle(stream_));
  EXPECT_TRUE(comes_true([&] { return !effects_->usage()->is_watching; }));
}
INSTANTIATE_TEST_SUITE_P(OfTheDriver, EachFailure,
                         testing::Values(std::pair("context_of", 1),
                                         std::pair("exchange_capture_mode", 1),
                                         std::pair("push", 1), std::pair("capture_of", 1),
                                         std::pair("write_value", 1), std::pair("wait_value", 1),
                                         std::pair("write_value", 2)));

TEST_F(CudaEffectsTest, ACellThatAStreamMayStillWriteToIsNotUsedAgain) {
  ASSERT_TRUE(effects_->prepare(0).ok());
  driver_->fail("wait_value", Code::kCuda);
  EXPECT_FALSE(effects_->hold(call_on(stream_), make_hold(0)).ok());
  EXPECT_EQ(gates_free(), kGates - 1);
}

TEST_F(CudaEffectsTest, ACellThatNoStreamKnowsIsFreeAgain) {
  ASSERT_TRUE(effects_->prepare(0).ok());
  driver_->fail("write_value", Code::kCuda);
  EXPECT_FALSE(effects_->hold(call_on(stream_), make_hold(0)).ok());
  EXPECT_EQ(gates_free(), kGates);
}

// --- Preparing -----------------------------------------------------------------------------------

TEST_F(CudaEffectsTest, NothingIsLoadedOnceTheDeviceIsPrepared) {
  ASSERT_TRUE(effects_->prepare(0).ok());
  EXPECT_EQ(driver_->load_count(), 1U);
  driver_->fail("load", Code::kCuda);
  driver_->fail("map_host", Code::kCuda);
  driver_->fail("create_stream", Code::kCuda);
  std::int32_t data[] = {1, 2, 3};
  hold()->end(Hold::kLetGo);
  EXPECT_TRUE(effects_->corrupt(call_on(stream_), flip(data, 1)).ok());
  driver_->run();
  EXPECT_EQ(driver_->load_count(), 1U);
}

TEST_F(CudaEffectsTest, AFirstHoldLoadsNothing) {
  hold()->end(Hold::kLetGo);
  driver_->run();
  EXPECT_EQ(driver_->load_count(), 0U);
}

TEST_F(CudaEffectsTest, SaysWhyADeviceCannotBePrepared) {
  auto word = effects_->make_word(call_on(stream_));
  driver_->fail("load", Code::kCuda);
  const Status prepared = effects_->prepare(0);
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().message(), "load was told to fail");
}

TEST(CudaEffects, GivesEveryFaultTheReasonWhyThereIsNoDriver) {
  int opened = 0;
  CudaEffects effects(
      [&]() -> Result<std::unique_ptr<driver::Driver>> {
        ++opened;
        return Error(Code::kNotFound, "no CUDA driver (libcuda.so.1)");
      },
      [](const void*) { return Result<int>(0); });
  EXPECT_EQ(effects.make_word({}).error().message(), "no CUDA driver (libcuda.so.1)");
  EXPECT_EQ(effects.captured(nullptr).error().message(), "no CUDA driver (libcuda.so.1)");
  EXPECT_EQ(opened, 1);
}

// --- Data ----------------------------------------------------------------------------------------

TEST_F(CudaEffectsTest, ChangesAnElementWhenTheStreamArrivesAndPutsItBack) {
  std::int32_t data[] = {10, 20, 30};
  std::int32_t seen = 0;
  auto undo = effects_->corrupt(call_on(stream_), flip(data, 1));
  ASSERT_TRUE(undo.ok());
  driver_->put(stream_, [&] { seen = data[1]; });
  ASSERT_TRUE(effects_->restore(call_on(stream_), std::move(*undo)).ok());
  EXPECT_EQ(data[1], 20);
  driver_->run();
  EXPECT_EQ(seen, 21);
  EXPECT_EQ(data[0], 10);
  EXPECT_EQ(data[1], 20);
  EXPECT_EQ(data[2], 30);
}

TEST_F(CudaEffectsTest, KeepsNothingWhereNothingIsToBePutBack) {
  std::int32_t data[] = {10, 20, 30};
  auto undo = effects_->corrupt(call_on(stream_), flip(data, 0));
  ASSERT_TRUE(undo.ok());
  EXPECT_EQ(*undo, nullptr);
  driver_->run();
  EXPECT_EQ(data[1], 21);
  EXPECT_EQ(saves_free(), kSaves);
}

TEST_F(CudaEffectsTest, ScalesEveryByteTypeByItsTable) {
  std::uint8_t data[] = {0x38, 0x40};  // float8e4m3: 1.0, 2.0
  CorruptionPlan plan;
  plan.datatype = DataType::kFloat8e4m3;
  plan.operation = CorruptionPlan::Operation::kScale;
  plan.factor = -2;
  plan.buffer = data;
  plan.count = 1;
  ASSERT_TRUE(effects_->corrupt(call_on(stream_), plan).ok());
  driver_->run();
  EXPECT_EQ(data[0], 0xc0);  // -2.0
  EXPECT_EQ(data[1], 0x40);
}

TEST_F(CudaEffectsTest, ASaveIsUsedAgainOnlyAfterItsLastKernel) {
  std::int32_t data[] = {10, 20, 30};
  auto undo = effects_->corrupt(call_on(stream_), flip(data, 1));
  ASSERT_TRUE(undo.ok());
  driver_->run();
  ASSERT_TRUE(effects_->restore(call_on(stream_), std::move(*undo)).ok());
  ASSERT_TRUE(effects_->corrupt(call_on(stream_), flip(data, 1)).ok());
  EXPECT_EQ(saves_free(), kSaves - 2);
  driver_->run();
  ASSERT_TRUE(effects_->corrupt(call_on(stream_), flip(data, 1)).ok());
  EXPECT_EQ(saves_free(), kSaves - 1);
  driver_->run();
}

TEST_F(CudaEffectsTest, RefusesToKeepMoreThanItHasCells) {
  std::int32_t data[] = {10, 20, 30};
  std::vector<std::unique_ptr<Undo>> undos;
  for (std::size_t i = 0; i < kSaves; ++i)
    undos.push_back(std::move(*effects_->corrupt(call_on(stream_), flip(data, 1))));
  const auto refused = effects_->corrupt(call_on(stream_), flip(data, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(), "the old values of 512 corruptions are kept already");
  driver_->run();
}

TEST_F(CudaEffectsTest, ACorruptionThatIsNotLaunchedKeepsNoCell) {
  ASSERT_TRUE(effects_->prepare(0).ok());
  std::int32_t data[] = {10, 20, 30};
  driver_->fail("launch", Code::kCuda);
  EXPECT_FALSE(effects_->corrupt(call_on(stream_), flip(data, 1)).ok());
  EXPECT_EQ(saves_free(), kSaves);
}

TEST_F(CudaEffectsTest, SaysThatTheOldValuesWereNotPutBack) {
  std::int32_t data[] = {10, 20, 30};
  auto undo = effects_->corrupt(call_on(stream_), flip(data, 1));
  driver_->fail("launch", Code::kCuda);
  const Status restored = effects_->restore(call_on(stream_), std::move(*undo));
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.error().message(), "launch was told to fail");
  driver_->run();
}

// --- Graphs --------------------------------------------------------------------------------------

TEST_F(CudaEffectsTest, TellsWhetherAStreamIsCaptured) {
  EXPECT_FALSE(*effects_->captured(stream_));
  EXPECT_FALSE(*effects_->captured(nullptr));  // no context is current
  driver_->begin_capture(stream_);
  EXPECT_TRUE(*effects_->captured(stream_));
  EXPECT_NE(end_capture(), nullptr);
}

TEST_F(CudaEffectsTest, ACapturedHoldActsAtEachReplayAndBreaksNoCapture) {
  driver_->begin_capture(stream_);
  auto held = hold(500);  // prepares the context, too
  int done = 0;
  driver_->put(stream_, [&] { ++done; });
  const Graph graph = end_capture();
  ASSERT_NE(graph, nullptr);
  for (int replay = 1; replay <= 2; ++replay) {
    driver_->replay(graph, stream_);
    driver_->run();
    driver_->advance(499);
    EXPECT_EQ(done, replay - 1);
    driver_->advance(1);
    EXPECT_EQ(done, replay);
  }
  EXPECT_FALSE(effects_->usage()->is_watching);
  EXPECT_EQ(held->state(), Hold::kHeld);
}

TEST_F(CudaEffectsTest, ACapturedHoldThatWasEndedStaysOpen) {
  driver_->begin_capture(stream_);
  auto held = hold();
  const Graph graph = end_capture();
  driver_->replay(graph, stream_);
  driver_->advance(1'000'000);
  EXPECT_FALSE(driver_->is_idle(stream_));
  held->end(Hold::kEnded);
  driver_->run();
  EXPECT_TRUE(driver_->is_idle(stream_));
  driver_->replay(graph, stream_);
  driver_->run();
  EXPECT_TRUE(driver_->is_idle(stream_));
}

TEST_F(CudaEffectsTest, ACapturedHoldIsOverWhenTheGraphIsGone) {
  driver_->begin_capture(stream_);
  auto held = hold();
  const Graph graph = end_capture();
  EXPECT_FALSE(held->is_over());
  destroy(graph);
  EXPECT_TRUE(held->is_over());
  held.reset();
  EXPECT_EQ(gates_free(), kGates);
}

TEST_F(CudaEffectsTest, AGraphKeepsItsCellsBeyondTheEffects) {
  driver_->begin_capture(stream_);
  std::int32_t data[] = {10, 20, 30};
  auto undo = effects_->corrupt(call_on(stream_), flip(data, 1));
  ASSERT_TRUE(undo.ok());
  const Graph graph = end_capture();
  undo->reset();
  EXPECT_EQ(saves_free(), kSaves - 1);
  destroy(graph);
  EXPECT_EQ(saves_free(), kSaves);
}

TEST_F(CudaEffectsTest, ACapturedCorruptionActsAtEachReplay) {
  std::int32_t data[] = {10, 20, 30};
  std::vector<std::int32_t> seen;
  driver_->begin_capture(stream_);
  auto undo = effects_->corrupt(call_on(stream_), flip(data, 1));
  driver_->put(stream_, [&] { seen.push_back(data[1]); });
  ASSERT_TRUE(effects_->restore(call_on(stream_), std::move(*undo)).ok());
  const Graph graph = end_capture();
  driver_->replay(graph, stream_);
  driver_->run();
  data[1] = 40;
  driver_->replay(graph, stream_);
  driver_->run();
  EXPECT_EQ(seen, (std::vector<std::int32_t>{21, 41}));
  EXPECT_EQ(data[1], 40);
}

TEST_F(CudaEffectsTest, RefusesToPutBackWhatAnotherCaptureChanged) {
  std::int32_t data[] = {10, 20, 30};
  driver_->begin_capture(stream_);
  auto undo = effects_->corrupt(call_on(stream_), flip(data, 1));
  end_capture();
  const Status restored = effects_->restore(call_on(stream_), std::move(*undo));
  ASSERT_FALSE(restored.ok());
  EXPECT_EQ(restored.error().code(), Code::kInvalidUsage);
}

TEST_F(CudaEffectsTest, AFirstFaultBreaksNoCaptureOfAnotherThread) {
  const Stream captured = driver_->make_stream(context_);
  driver_->begin_capture(captured);
  std::thread([&] { hold()->end(Hold::kLetGo); }).join();
  EXPECT_NE(driver_->end_capture(captured), nullptr);
}

TEST_F(CudaEffectsTest, RefusesACaptureThatHasFailed) {
  driver_->begin_capture(stream_);
  ASSERT_TRUE(driver_->push(context_).ok());
  EXPECT_FALSE(driver_->load("").ok());  // what an application must not do
  ASSERT_TRUE(driver_->pop().ok());
  const Status put = effects_->hold(call_on(stream_), make_hold(0));
  ASSERT_FALSE(put.ok());
  EXPECT_EQ(put.error().message(), "the stream's capture into a graph has failed already");
}

// --- A driver without waits of its streams -------------------------------------------------------

class OldDriverTest : public CudaEffectsTest {
 protected:
  OldDriverTest() : CudaEffectsTest(false) {}
};

TEST_F(OldDriverTest, AKernelHoldsTheStream) {
  auto held = hold(500);
  driver_->run();
  driver_->advance(499);
  EXPECT_FALSE(driver_->is_idle(stream_));
  driver_->advance(1);
  EXPECT_TRUE(driver_->is_idle(stream_));
  EXPECT_TRUE(comes_true([&] { return held->is_over(); }));
}

TEST_F(OldDriverTest, AStoreFreesTheStream) {
  auto held = hold();
  driver_->advance(1'000'000);
  held->end(Hold::kEnded);
  driver_->run();
  EXPECT_TRUE(driver_->is_idle(stream_));
  EXPECT_TRUE(comes_true([&] { return held->is_over(); }));
}

}  // namespace
}  // namespace sabot::layer
