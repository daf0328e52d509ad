// Preparing a context, and gates and edits on its streams, with the fake driver.
#include "driver/gpu.hpp"

#include <gtest/gtest.h>

#include "driver/fake_driver.hpp"
#include "driver/visit.hpp"

namespace sabot::driver {
namespace {

class GpuTest : public testing::Test {
 protected:
  static FakeDriver::Options options() {
    FakeDriver::Options options;
    options.device_count = 2;
    options.scale = [](std::uint32_t, std::uint64_t bits, double factor) {
      return static_cast<std::uint64_t>(static_cast<double>(bits) * factor);
    };
    return options;
  }
  void SetUp() override {
    auto gpus = Gpus::create(driver_);
    ASSERT_TRUE(gpus.ok());
    gpus_ = std::move(*gpus);
    context_ = driver_.activate(0);
    stream_ = driver_.make_stream(context_);
    auto visit = Visit::begin(driver_, context_);
    ASSERT_TRUE(visit.ok());
    visit_ = std::make_unique<Visit>(std::move(*visit));
  }
  Gpu& gpu() { return **gpus_->enter(context_); }
  const Kernels& kernels() { return gpus_->kernels(gpu()); }

  FakeDriver driver_{options()};
  std::unique_ptr<Gpus> gpus_;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  std::unique_ptr<Visit> visit_;
};

TEST_F(GpuTest, LoadsOnceAContextAndLeavesNoStream) {
  const std::size_t streams = driver_.stream_count();
  const Gpu& first = gpu();
  EXPECT_EQ(driver_.load_count(), 0U);
  EXPECT_EQ(&kernels(), &kernels());
  EXPECT_EQ(&first, &gpu());
  EXPECT_EQ(driver_.load_count(), 1U);
  EXPECT_EQ(driver_.stream_count(), streams);
  driver_.run();  // the warm-up ends by itself
  EXPECT_EQ(driver_.illegal_count(), 0U);
}

TEST_F(GpuTest, LoadsForEachContextByItself) {
  kernels();
  const Context other = driver_.activate(1);
  auto visit = Visit::begin(driver_, other);
  ASSERT_TRUE(visit.ok());
  auto prepared = gpus_->enter(other);
  ASSERT_TRUE(prepared.ok());
  GateCell* cell = gpus_->gates().take();
  cell->release.store(1);
  ASSERT_TRUE(put_captured_gate(*gpus_, **prepared, driver_.make_stream(other), *cell, 0).ok());
  ASSERT_TRUE(put_gate(*gpus_, **prepared, driver_.make_stream(other), *cell, 0).ok());
  driver_.run();
  EXPECT_EQ(driver_.load_count(), 2U);
  EXPECT_EQ(cell->departure.load(), 1U);
}

TEST_F(GpuTest, SaysWhyAContextHasNoKernels) {
  driver_.fail("load", Code::kCuda);
  EXPECT_EQ(kernels().refusal, "load was told to fail");
  const Status put = put_edit(*gpus_, gpu(), stream_, nullptr, {});
  ASSERT_FALSE(put.ok());
  EXPECT_EQ(put.error().message(), "this GPU runs no kernel of ours: load was told to fail");
  EXPECT_EQ(driver_.load_count(), 0U);  // nor is it tried again
}

TEST_F(GpuTest, HoldsStreamsWithoutKernels) {
  GateCell* cell = gpus_->gates().take();
  ASSERT_TRUE(put_gate(*gpus_, gpu(), stream_, *cell, 0).ok());
  driver_.run();
  EXPECT_FALSE(driver_.is_idle(stream_));
  EXPECT_EQ(driver_.load_count(), 0U);
}

TEST_F(GpuTest, GivesUpKernelsThatCannotBeWarmedUp) {
  driver_.fail("launch", Code::kCuda, 2);
  EXPECT_EQ(kernels().refusal, "launch was told to fail");
  EXPECT_EQ(kernels().spin, nullptr);
}

TEST_F(GpuTest, TriesAgainToMapMemory) {
  driver_.fail("map_host", Code::kCuda, 2);
  EXPECT_FALSE(gpus_->enter(context_).ok());
  EXPECT_TRUE(gpus_->enter(context_).ok());
}

TEST_F(GpuTest, GateStopsTheStreamUntilAStore) {
  GateCell* cell = gpus_->gates().take();
  bool is_done = false;
  auto limit = put_gate(*gpus_, gpu(), stream_, *cell, 5);
  ASSERT_TRUE(limit.ok());
  EXPECT_EQ(*limit, Limit::kByCpu);
  driver_.put(stream_, [&] { is_done = true; });
  driver_.advance(1000);
  EXPECT_EQ(cell->arrival.load(), 1U);
  EXPECT_EQ(cell->departure.load(), 0U);
  EXPECT_FALSE(is_done);
  cell->release.store(3);
  driver_.run();
  EXPECT_EQ(cell->departure.load(), 1U);
  EXPECT_TRUE(is_done);
  EXPECT_EQ(driver_.illegal_count(), 0U);
}

TEST_F(GpuTest, FailureOfTheFirstWordPutsNothing) {
  Gpu& prepared = gpu();
  driver_.run();
  driver_.fail("write_value", Code::kCuda);
  GateCell* cell = gpus_->gates().take();
  EXPECT_FALSE(put_gate(*gpus_, prepared, stream_, *cell, 0).ok());
  EXPECT_TRUE(driver_.is_idle(stream_));
  EXPECT_EQ(cell->release.load(), 0U);
}

TEST_F(GpuTest, FailureOfTheWaitHoldsNothing) {
  driver_.fail("wait_value", Code::kCuda);
  GateCell* cell = gpus_->gates().take();
  EXPECT_FALSE(put_gate(*gpus_, gpu(), stream_, *cell, 0).ok());
  EXPECT_EQ(cell->release.load(), 1U);
  driver_.run();
  EXPECT_TRUE(driver_.is_idle(stream_));
}

TEST_F(GpuTest, FailureOfTheLastWordOpensTheGate) {
  driver_.fail("write_value", Code::kCuda, 2);
  GateCell* cell = gpus_->gates().take();
  EXPECT_FALSE(put_gate(*gpus_, gpu(), stream_, *cell, 0).ok());
  driver_.run();
  EXPECT_TRUE(driver_.is_idle(stream_));
}

TEST_F(GpuTest, EditKeepsAndPutsBackWhatItIsToldTo) {
  std::uint16_t data[] = {10, 11, 12, 13};
  EditParameters edit;
  edit.buffer = reinterpret_cast<Address>(data);
  edit.count = 2;
  edit.element_bytes = 2;
  edit.index[0] = 1;
  edit.mask[0] = 0xffff;
  edit.flip[0] = 0x8000;
  edit.index[1] = 3;
  SaveCell* cell = gpus_->saves().take();
  ASSERT_TRUE(put_edit(*gpus_, gpu(), stream_, cell, edit).ok());
  EXPECT_EQ(data[1], 11);
  driver_.run();
  EXPECT_EQ(data[1], 0x800b);
  EXPECT_EQ(data[3], 0);
  EXPECT_EQ(cell->changed.load(), 1U);
  edit.edit = Edit::kRestore;
  edit.mask[0] = 1;
  ASSERT_TRUE(put_edit(*gpus_, gpu(), stream_, cell, edit).ok());
  driver_.run();
  EXPECT_EQ(data[1], 11);
  EXPECT_EQ(data[3], 0);
  EXPECT_EQ(cell->restored.load(), 1U);
}

// --- A device without waits of its streams -------------------------------------------------------

class OldGpuTest : public testing::Test {
 protected:
  static FakeDriver::Options options() {
    FakeDriver::Options options;
    options.has_memory_operations = false;
    return options;
  }
  FakeDriver driver_{options()};
};

TEST_F(OldGpuTest, AKernelWaitsAndMindsTheLimit) {
  auto gpus = Gpus::create(driver_);
  ASSERT_TRUE(gpus.ok());
  const Context context = driver_.activate(0);
  const auto visit = Visit::begin(driver_, context);
  ASSERT_TRUE(visit.ok());
  auto gpu = (*gpus)->enter(context);
  ASSERT_TRUE(gpu.ok());
  const Stream stream = driver_.make_stream(context);
  GateCell* cell = (*gpus)->gates().take();
  auto limit = put_gate(**gpus, **gpu, stream, *cell, 500);
  ASSERT_TRUE(limit.ok());
  EXPECT_EQ(*limit, Limit::kByGpu);
  driver_.run();
  driver_.advance(499);
  EXPECT_EQ(cell->arrival.load(), 1U);
  EXPECT_FALSE(driver_.is_idle(stream));
  driver_.advance(1);
  EXPECT_TRUE(driver_.is_idle(stream));
  EXPECT_EQ(cell->departure.load(), 1U);
}

TEST_F(OldGpuTest, WithoutKernelsNothingCanHold) {
  auto gpus = Gpus::create(driver_);
  ASSERT_TRUE(gpus.ok());
  const Context context = driver_.activate(0);
  const auto visit = Visit::begin(driver_, context);
  ASSERT_TRUE(visit.ok());
  driver_.fail("load", Code::kCuda);
  auto gpu = (*gpus)->enter(context);
  ASSERT_TRUE(gpu.ok());
  GateCell* cell = (*gpus)->gates().take();
  const auto put = put_gate(**gpus, **gpu, driver_.make_stream(context), *cell, 500);
  ASSERT_FALSE(put.ok());
  EXPECT_EQ(put.error().code(), Code::kUnsupported);
}

// --- The visitor's manners -----------------------------------------------------------------------

TEST(VisitTest, LeavesContextAndModeAsTheyWere) {
  FakeDriver driver;
  const Context context = driver.activate(0);
  ASSERT_TRUE(driver.exchange_capture_mode(CaptureMode::kThreadLocal).ok());
  {
    auto visit = Visit::begin(driver, context);
    ASSERT_TRUE(visit.ok());
    EXPECT_EQ(driver.capture_mode(), CaptureMode::kRelaxed);
    EXPECT_EQ(driver.context_depth(), 1U);
  }
  EXPECT_EQ(driver.capture_mode(), CaptureMode::kThreadLocal);
  EXPECT_EQ(driver.context_depth(), 0U);
}

TEST(VisitTest, GivesTheModeBackWhereTheContextIsRefused) {
  FakeDriver driver;
  driver.fail("push", Code::kCuda);
  EXPECT_FALSE(Visit::begin(driver, driver.activate(0)).ok());
  EXPECT_EQ(driver.capture_mode(), CaptureMode::kGlobal);
  EXPECT_EQ(driver.context_depth(), 0U);
}

}  // namespace
}  // namespace sabot::driver
