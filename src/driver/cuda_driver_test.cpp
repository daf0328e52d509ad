// The real form over functions that stand in for the driver's: what is asked, and what an answer
// becomes.
#include "driver/cuda_driver.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace sabot::driver {
namespace {

// Answers of the functions below, and what they were asked.
struct Script {
  int result = 0;         // of every function that can fail
  int retain_result = 0;  // of cuGraphRetainUserObject
  int is_active = 1;
  int capture_status = 0;
  int retained_count = 0;
  std::vector<unsigned char> launched;
  unsigned threads = 0;
  std::vector<std::uint32_t> written;
  void (*destroy)(void*) = nullptr;
  void* user = nullptr;
};
Script script;

int fixed(int value) { return value; }

CudaFunctions functions() {
  CudaFunctions cuda;
  cuda.cuGetErrorName = [](int error, const char** name) {
    *name = error == 801 ? "CUDA_ERROR_NOT_SUPPORTED" : nullptr;
    return fixed(0);
  };
  cuda.cuGetErrorString = [](int error, const char** text) {
    *text = error == 801 ? "operation not supported" : nullptr;
    return fixed(0);
  };
  cuda.cuDevicePrimaryCtxGetState = [](int, unsigned*, int* active) {
    *active = script.is_active;
    return script.result;
  };
  cuda.cuDevicePrimaryCtxRetain = [](Context* context, int) {
    ++script.retained_count;
    *context = &script;
    return fixed(0);
  };
  cuda.cuStreamGetCaptureInfo = [](Stream, int* status, std::uint64_t*, Graph* graph, const void**,
                                   std::size_t*) {
    *status = script.capture_status;
    *graph = &script;
    return script.result;
  };
  cuda.cuUserObjectCreate = [](void** object, void* user, void (*destroy)(void*), unsigned,
                               unsigned) {
    *object = &script;
    script.user = user;
    script.destroy = destroy;
    return script.result;
  };
  cuda.cuGraphRetainUserObject = [](Graph, void*, unsigned, unsigned) {
    return script.retain_result;
  };
  cuda.cuUserObjectRelease = [](void*, unsigned) {
    script.destroy(script.user);
    return fixed(0);
  };
  cuda.cuMemHostRegister = [](void*, std::size_t, unsigned) { return script.result; };
  cuda.cuMemHostGetDevicePointer = [](Address* address, void*, unsigned) {
    *address = 0x1000;
    return fixed(0);
  };
  cuda.cuLaunchKernel = [](Kernel, unsigned, unsigned, unsigned, unsigned threads, unsigned,
                           unsigned, unsigned, Stream, void** parameters, void** extra) {
    if (parameters != nullptr || extra[0] != reinterpret_cast<void*>(1) ||
        extra[2] != reinterpret_cast<void*>(2) || extra[4] != nullptr)
      return fixed(1);
    const auto* bytes = static_cast<const unsigned char*>(extra[1]);
    script.launched.assign(bytes, bytes + *static_cast<std::size_t*>(extra[3]));
    script.threads = threads;
    return fixed(0);
  };
  cuda.cuStreamWriteValue32 = [](Stream, Address, std::uint32_t value, unsigned) {
    script.written.push_back(value);
    return script.result;
  };
  return cuda;
}

class CudaDriverTest : public testing::Test {
 protected:
  CudaDriverTest() { script = {}; }
  CudaDriver driver_{functions()};
};

TEST(CudaFunctions, SayThatThereIsNoDriver) {
  const auto found = cuda_functions("libcuda-that-nobody-has.so.1");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), Code::kNotFound);
  EXPECT_NE(found.error().message().find("no CUDA driver ("), std::string::npos);
}

TEST(CudaFunctions, RefuseALibraryThatIsNoDriver) {
  const auto found = cuda_functions("libm.so.6");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().message(),
            "libm.so.6 is no CUDA driver, or one before CUDA 11.3: cuGetProcAddress is missing");
}

TEST_F(CudaDriverTest, NeverCreatesAPrimaryContext) {
  script.is_active = 0;
  const auto context = driver_.primary_context(3);
  ASSERT_FALSE(context.ok());
  EXPECT_EQ(context.error().code(), Code::kInvalidUsage);
  EXPECT_EQ(context.error().message(), "the primary context of device 3 is not active");
  EXPECT_EQ(script.retained_count, 0);
}

TEST_F(CudaDriverTest, RetainsAPrimaryContextOnce) {
  ASSERT_TRUE(driver_.primary_context(0).ok());
  ASSERT_TRUE(driver_.primary_context(0).ok());
  EXPECT_EQ(script.retained_count, 1);
}

TEST_F(CudaDriverTest, NamesTheFunctionAndTheError) {
  script.result = 801;
  const Status written = driver_.write_value(nullptr, 0, 1);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code(), Code::kUnsupported);
  EXPECT_EQ(written.error().message(),
            "cuStreamWriteValue32 returned CUDA_ERROR_NOT_SUPPORTED (operation not supported)");
}

TEST_F(CudaDriverTest, NumbersAnErrorThatHasNoName) {
  script.result = 4711;
  const auto capture = driver_.capture_of(nullptr);
  ASSERT_FALSE(capture.ok());
  EXPECT_EQ(capture.error().code(), Code::kCuda);
  EXPECT_EQ(capture.error().message(), "cuStreamGetCaptureInfo returned error 4711");
}

TEST_F(CudaDriverTest, TellsThatTheCaptureOfAnotherStreamForbidsTheCall) {
  script.result = 906;
  const auto capture = driver_.capture_of(nullptr);
  ASSERT_FALSE(capture.ok());
  EXPECT_EQ(capture.error().code(), Code::kInvalidUsage);
}

TEST_F(CudaDriverTest, SaysThatAnOldDriverHasNoWaits) {
  const Status waited = driver_.wait_value(nullptr, 0, 1);
  ASSERT_FALSE(waited.ok());
  EXPECT_EQ(waited.error().code(), Code::kUnsupported);
  EXPECT_EQ(waited.error().message(), "this driver has no cuStreamWaitValue32 of CUDA 11.7");
}

TEST_F(CudaDriverTest, GivesTheGraphOnlyOfAnActiveCapture) {
  script.capture_status = 1;
  EXPECT_NE(driver_.capture_of(nullptr)->graph, nullptr);
  script.capture_status = 2;
  EXPECT_EQ(driver_.capture_of(nullptr)->graph, nullptr);
  EXPECT_EQ(driver_.capture_of(nullptr)->state, Capture::State::kInvalidated);
}

TEST_F(CudaDriverTest, TellsTheEndOfAGraphOnce) {
  int ended = 0;
  ASSERT_TRUE(driver_
                  .at_end_of(
                      nullptr, [](void* count) { ++*static_cast<int*>(count); }, &ended)
                  .ok());
  EXPECT_EQ(ended, 0);
  script.destroy(script.user);
  EXPECT_EQ(ended, 1);
}

TEST_F(CudaDriverTest, TellsNobodyOfTheEndOfAGraphThatTookNothing) {
  script.retain_result = 1;
  int ended = 0;
  EXPECT_FALSE(driver_
                   .at_end_of(
                       nullptr, [](void* count) { ++*static_cast<int*>(count); }, &ended)
                   .ok());
  EXPECT_EQ(ended, 0);
}

TEST_F(CudaDriverTest, MapsPagesThatAreRegisteredAlready) {
  script.result = 712;
  const auto address = driver_.map_host(&script, 64);
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(*address, 0x1000U);
}

TEST_F(CudaDriverTest, HandsAKernelItsParametersInOnePiece) {
  const std::uint64_t parameters[] = {7, 9};
  ASSERT_TRUE(driver_.launch(nullptr, 64, nullptr, std::as_bytes(std::span(parameters))).ok());
  ASSERT_EQ(script.launched.size(), sizeof parameters);
  EXPECT_EQ(std::memcmp(script.launched.data(), parameters, sizeof parameters), 0);
  EXPECT_EQ(script.threads, 64U);
}

}  // namespace
}  // namespace sabot::driver
