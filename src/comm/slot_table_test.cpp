// Handles: live ones work, all others are judged without being touched.
#include "comm/slot_table.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sabot::comm {
namespace {

struct Body {
  explicit Body(int* count) : alive(count) { ++*alive; }
  ~Body() { --*alive; }
  int* alive;
};

std::atomic<const HandleRange*> ranges{nullptr};

TEST(SlotTable, KeepsTheBodyUntilTheLastOneInsideLeaves) {
  SlotTable<Body> table(ranges);
  int alive = 0;
  auto first = table.add(std::make_unique<Body>(&alive)).value();
  auto second = table.enter(first.handle());
  ASSERT_TRUE(second);
  EXPECT_EQ(first.users(), 2u);
  EXPECT_TRUE(first.retire(SlotState::kDestroyed));
  EXPECT_FALSE(second.retire(SlotState::kAborted)) << "only the first end counts";
  first.reset();
  EXPECT_EQ(alive, 1);
  EXPECT_FALSE(table.enter(second.handle()));
  second.reset();
  EXPECT_EQ(alive, 0);
}

TEST(SlotTable, TellsForeignPointersFromTombstones) {
  SlotTable<Body> table(ranges);
  int alive = 0;
  auto ref = table.add(std::make_unique<Body>(&alive)).value();
  void* handle = ref.handle();
  EXPECT_FALSE(table.enter(nullptr));
  EXPECT_FALSE(table.enter(&alive));
  EXPECT_FALSE(table.enter(static_cast<char*>(handle) + 8)) << "between two slots";
  EXPECT_EQ(table.state(&alive), SlotState::kUnused);
  ref.retire(SlotState::kAborted);
  ref.reset();
  EXPECT_EQ(table.state(handle), SlotState::kAborted);
  EXPECT_FALSE(table.enter(handle));
}

TEST(SlotTable, UsesASlotAgainOnlyAfterManyOthersHaveEnded) {
  SlotTable<Body> table(ranges);
  int alive = 0;
  auto ref = table.add(std::make_unique<Body>(&alive)).value();
  void* first = ref.handle();
  ref.retire(SlotState::kDestroyed);
  ref.reset();
  std::size_t others = 0;
  for (bool again = false; !again; ++others) {
    ref = table.add(std::make_unique<Body>(&alive)).value();
    again = ref.handle() == first;
    ref.retire(SlotState::kDestroyed);
    ref.reset();
    ASSERT_LT(others, 5000u);
  }
  EXPECT_GE(others, SlotTable<Body>::kTombstonesMin);
  EXPECT_EQ(alive, 0);
}

TEST(SlotTable, FreesEveryBodyOnceWhenManyThreadsEnterAndOneRetires) {
  SlotTable<Body> table(ranges);
  for (int round = 0; round < 200; ++round) {
    int alive = 0;
    auto ref = table.add(std::make_unique<Body>(&alive)).value();
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&table, handle = ref.handle()] {
        for (int n = 0; n < 50; ++n) {
          auto inside = table.enter(handle);
          if (inside) {
            EXPECT_EQ(*inside->alive, 1);
          }
        }
      });
    }
    ref.retire(SlotState::kDestroyed);
    ref.reset();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(alive, 0);
  }
}

TEST(SlotTable, RemembersItsRangeForForkedChildren) {
  SlotTable<Body> table(ranges);
  int alive = 0;
  auto ref = table.add(std::make_unique<Body>(&alive)).value();
  const auto handle = reinterpret_cast<std::uintptr_t>(ref.handle());
  bool found = false;
  for (const HandleRange* range = ranges.load(); range != nullptr; range = range->next) {
    found = found || (handle - range->base < range->bytes && range->owner == ::getpid());
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace sabot::comm
