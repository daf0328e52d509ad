// Counting processors: the quota file's grammar, and a narrowed affinity mask.
#include "link/processors.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace sabot::link {
namespace {

TEST(Processors, AQuotaOfAFractionCountsAsAWholeProcessor) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 2);
  EXPECT_EQ(parse_cpu_max("100000 100000"), 1);
  EXPECT_EQ(parse_cpu_max("5000 100000"), 1);
}

TEST(Processors, NoQuotaOrNonsenseIsNone) {
  EXPECT_EQ(parse_cpu_max("max 100000\n"), 0);
  EXPECT_EQ(parse_cpu_max(""), 0);
  EXPECT_EQ(parse_cpu_max("12"), 0);
  EXPECT_EQ(parse_cpu_max("-1 100000"), 0);
  EXPECT_EQ(parse_cpu_max("100000 0"), 0);
}

TEST(Processors, TheAffinityOfTheThreadCounts) {
  int cpus = 0;
  std::thread narrowed([&] {
    cpu_set_t all;
    sched_getaffinity(0, sizeof(all), &all);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof(one), &one);
    cpus = allowed_cpus();
  });
  narrowed.join();
  EXPECT_EQ(cpus, 1);
  EXPECT_GE(count_cpus(affinity()), 1);
}

}  // namespace
}  // namespace sabot::link
