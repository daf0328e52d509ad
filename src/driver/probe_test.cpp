// What the probe says where there is no driver, or something else under its name.
#include "driver/probe.hpp"

#include <gtest/gtest.h>

namespace sabot::driver {
namespace {

TEST(Probe, SaysThatThereIsNoDriver) {
  const Result<int> devices = count_devices("libcuda-that-nobody-has.so.1");
  ASSERT_FALSE(devices.ok());
  EXPECT_EQ(devices.error().code(), Code::kNotFound);
  EXPECT_NE(devices.error().message().find("no CUDA driver"), std::string::npos);
}

TEST(Probe, RefusesALibraryThatIsNoDriver) {
  const Result<int> devices = count_devices("libm.so.6");
  ASSERT_FALSE(devices.ok());
  EXPECT_EQ(devices.error().message(), "libm.so.6 is no CUDA driver: cuInit is missing");
}

}  // namespace
}  // namespace sabot::driver
