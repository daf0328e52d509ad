// Conditions that parse, but that nobody could decide.
#include "scenario/decidable.hpp"

#include <gtest/gtest.h>

#include "scenario/parse.hpp"

namespace sabot::scenario {
namespace {

std::string refusal(const char* line, Controller controller) {
  const Status status = check_decidable(*parse_line(line, "--fault"), controller);
  return status.ok() ? "decidable" : status.error().message();
}

TEST(Decidable, ASwitchThatNobodyCanTurnIsRefused) {
  EXPECT_EQ(
      refusal("x: AllReduce[switch=now]=error(SystemError)", Controller::kNobody),
      "fault \"x\": key 'when.switch': only `sabot ctl` turns switches, and this fault is not "
      "part of a run; leave it out");
}

TEST(Decidable, AFaultThatNobodyCanArmIsRefused) {
  EXPECT_EQ(refusal("x: AllReduce[armed=false]=error(SystemError)", Controller::kNobody),
            "fault \"x\": key 'armed': only `sabot ctl` arms faults, and this fault is not part of "
            "a run; leave it out");
}

TEST(Decidable, InARunBothAre) {
  EXPECT_EQ(refusal("AllReduce[switch=now]=error(SystemError)", Controller::kRun), "decidable");
  EXPECT_EQ(refusal("AllReduce[armed=false]=error(SystemError)", Controller::kRun), "decidable");
}

TEST(Decidable, EverythingElseIsEverywhere) {
  EXPECT_EQ(refusal("AllReduce[rank=1,captured=true,after=1s]=hang", Controller::kNobody),
            "decidable");
}

}  // namespace
}  // namespace sabot::scenario
