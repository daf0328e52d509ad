// Conditions that parse, but that nobody could decide.
#include "scenario/decidable.hpp"

#include <gtest/gtest.h>

#include "scenario/parse.hpp"

namespace sabot::scenario {
namespace {

Status check(const char* line) { return check_decidable(*parse_line(line, "--fault")); }

TEST(Decidable, ASwitchThatNobodyCanTurnIsRefused) {
  EXPECT_EQ(check("x: AllReduce[switch=now]=error(SystemError)").error().message(),
            "fault \"x\": key 'when.switch' cannot be decided by this build: nothing can turn a "
            "switch while "
            "a job runs; leave it out");
}

TEST(Decidable, CaptureIsRefused) {
  EXPECT_EQ(
      check("x: AllReduce[captured=true]=error(SystemError)").error().message(),
      "fault \"x\": key 'when.captured' cannot be decided by this build: it does not ask the CUDA "
      "driver about streams; leave it out");
}

TEST(Decidable, EverythingElseIs) {
  EXPECT_TRUE(check("AllReduce[rank=1]=error(SystemError)").ok());
}

}  // namespace
}  // namespace sabot::scenario
