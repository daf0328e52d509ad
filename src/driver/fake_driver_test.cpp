// The rules that the fake must have, or the tests over it would prove nothing.
#include "driver/fake_driver.hpp"

#include <gtest/gtest.h>

#include "driver/visit.hpp"

namespace sabot::driver {
namespace {

FakeDriver::Options with_queues(std::size_t count) {
  FakeDriver::Options options;
  options.queue_count = count;
  return options;
}

struct alignas(64) Words {
  std::atomic<std::uint32_t> word{0};
};

TEST(FakeDriver, AStreamThatWaitsStopsTheOneThatSharesItsQueue) {
  FakeDriver driver(with_queues(2));
  const Context context = driver.activate(0);
  const auto visit = Visit::begin(driver, context);
  ASSERT_TRUE(visit.ok());
  Words words;
  auto address = driver.map_host(&words, sizeof words);
  ASSERT_TRUE(address.ok());
  const Stream first = driver.make_stream(context);
  const Stream second = driver.make_stream(context);
  const Stream third = driver.make_stream(context);
  ASSERT_TRUE(driver.wait_value(first, *address, 1).ok());
  driver.put(second, [] {});
  driver.put(third, [] {});
  driver.run();
  EXPECT_TRUE(driver.is_idle(second));
  EXPECT_FALSE(driver.is_idle(third));
  words.word.store(1);
  driver.run();
  EXPECT_TRUE(driver.is_idle(third));
}

TEST(FakeDriver, CountsAccessesByTheAddressOfTheCpu) {
  FakeDriver driver;
  const Context context = driver.activate(0);
  const auto visit = Visit::begin(driver, context);
  ASSERT_TRUE(visit.ok());
  Words words;
  ASSERT_TRUE(driver.map_host(&words, sizeof words).ok());
  ASSERT_TRUE(
      driver.write_value(driver.make_stream(context), reinterpret_cast<Address>(&words), 1).ok());
  driver.run();
  EXPECT_EQ(driver.illegal_count(), 1U);
  EXPECT_EQ(words.word.load(), 0U);
}

TEST(FakeDriver, LoadingDestroysAGlobalCapture) {
  FakeDriver driver;
  const Context context = driver.activate(0);
  const Stream stream = driver.make_stream(context);
  ASSERT_TRUE(driver.push(context).ok());
  driver.begin_capture(stream);
  EXPECT_FALSE(driver.load("").ok());
  EXPECT_EQ(driver.end_capture(stream), nullptr);
}

TEST(FakeDriver, LoadingInTheRelaxedModeDestroysNothing) {
  FakeDriver driver;
  const Context context = driver.activate(0);
  const Stream stream = driver.make_stream(context);
  driver.begin_capture(stream);
  {
    const auto visit = Visit::begin(driver, context);
    ASSERT_TRUE(visit.ok());
    EXPECT_TRUE(driver.load("").ok());
  }
  EXPECT_NE(driver.end_capture(stream), nullptr);
}

TEST(FakeDriver, WorkOnACapturedStreamIsDoneAtEachReplay) {
  FakeDriver driver;
  const Stream stream = driver.make_stream(driver.activate(0));
  int done = 0;
  driver.begin_capture(stream);
  driver.put(stream, [&] { ++done; });
  const Graph graph = driver.end_capture(stream);
  driver.run();
  EXPECT_EQ(done, 0);
  driver.replay(graph, stream);
  driver.replay(graph, stream);
  driver.run();
  EXPECT_EQ(done, 2);
}

TEST(FakeDriver, RefusesAStreamOfAnotherContext) {
  FakeDriver::Options options;
  options.device_count = 2;
  FakeDriver driver(options);
  const Stream stream = driver.make_stream(driver.activate(1));
  const auto visit = Visit::begin(driver, driver.activate(0));
  ASSERT_TRUE(visit.ok());
  EXPECT_FALSE(driver.write_value(stream, 0, 1).ok());
}

TEST(FakeDriver, TheLegacyStreamCannotBeAskedWhileOneThatWaitsForItIsCaptured) {
  FakeDriver driver;
  const Context context = driver.activate(0);
  const auto visit = Visit::begin(driver, context);
  ASSERT_TRUE(visit.ok());
  EXPECT_TRUE(driver.capture_of(nullptr).ok());
  driver.begin_capture(driver.make_stream(context, true));
  EXPECT_EQ(driver.capture_of(nullptr).error().code(), Code::kInvalidUsage);
}

}  // namespace
}  // namespace sabot::driver
