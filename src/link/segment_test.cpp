// The shared segment: its layout, its failure block and its blobs, between mappings and processes.
#include "link/segment.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace sabot::link {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(const std::optional<std::vector<std::byte>>& bytes) {
  if (!bytes) return "(nothing)";
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

std::unique_ptr<Segment> make(int ranks) {
  auto made = Segment::create(Geometry::for_ranks(ranks, 2));
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

TEST(Segment, CostsMemoryOnlyWhereItIsTouched) {
  const auto segment = make(64);
  struct stat status {};
  ASSERT_EQ(fstat(segment->descriptor(), &status), 0);
  EXPECT_GT(status.st_size, off_t{1} << 30);
  EXPECT_LT(status.st_size, off_t{1} << 32);
  EXPECT_LT(status.st_blocks * 512, 64 * 1024);
}

TEST(Segment, WhatOneMappingWritesTheOtherReads) {
  const auto mine = make(3);
  auto theirs = Segment::map(mine->descriptor());
  ASSERT_TRUE(theirs.ok()) << theirs.error().message();
  EXPECT_EQ((*theirs)->ranks(), 3);
  std::strcpy(reinterpret_cast<char*>(mine->window(1).data(6)), "window");
  mine->window(1).line(6).stamp.store(7);
  std::strcpy(reinterpret_cast<char*>(mine->channel(2, 0).data(1)), "channel");
  mine->channel_consumed(2, 0).store(9);
  EXPECT_EQ((*theirs)->window(1).line(6).stamp.load(), 7u);
  EXPECT_STREQ(reinterpret_cast<char*>((*theirs)->window(1).data(6)), "window");
  EXPECT_STREQ(reinterpret_cast<char*>((*theirs)->channel(2, 0).data(1)), "channel");
  EXPECT_EQ((*theirs)->channel_consumed(2, 0).load(), 9u);
}

TEST(Segment, NoTwoAreasOverlap) {
  const auto segment = make(3);
  std::vector<std::pair<const std::byte*, std::size_t>> areas;
  const Geometry& g = segment->geometry();
  for (int r = 0; r < 3; ++r) {
    areas.emplace_back(segment->window(r).payload, std::size_t{g.slots} * g.slot_bytes);
    areas.emplace_back(reinterpret_cast<const std::byte*>(segment->window(r).lines), g.slots * 64u);
    for (int p = 0; p < 3; ++p) {
      const Slots channel = segment->channel(r, p);
      areas.emplace_back(channel.payload, std::size_t{channel.count} * channel.bytes);
      areas.emplace_back(reinterpret_cast<const std::byte*>(channel.lines), channel.count * 64u);
    }
  }
  std::sort(areas.begin(), areas.end());
  for (std::size_t i = 1; i < areas.size(); ++i)
    EXPECT_LE(areas[i - 1].first + areas[i - 1].second, areas[i].first);
}

TEST(Segment, ADescriptorOfSomethingElseIsRefused) {
  const int fd = memfd_create("other", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 1 << 20), 0);
  const auto mapped = Segment::map(fd);
  ASSERT_FALSE(mapped.ok());
  EXPECT_EQ(
      mapped.error().message(),
      "mapping shared memory: it is not a segment of this version of Sabot; all ranks must run "
      "the same version");
  close(fd);
  EXPECT_FALSE(Segment::map(-1).ok());
}

TEST(Segment, NobodyCanTruncateIt) {
  const auto segment = make(2);
  EXPECT_NE(ftruncate(segment->descriptor(), 0), 0);
}

TEST(Segment, RanksOutOfRangeAreRefusedWithTheBound) {
  const auto made = Segment::create(Geometry::for_ranks(65, 2));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message(),
            "making shared memory for 65 ranks: between 1 and 64 are possible");
  EXPECT_FALSE(Segment::create(Geometry::for_ranks(0, 2)).ok());
}

TEST(Segment, TheFirstFailureStands) {
  const auto segment = make(2);
  EXPECT_FALSE(segment->failed());
  EXPECT_EQ(segment->fail({FailureKind::kDead, 1, 0, "rank 1 died"}).text, "rank 1 died");
  EXPECT_EQ(segment->fail({FailureKind::kMismatch, 0, 1, "another"}).text, "rank 1 died");
  const auto standing = segment->failure();
  ASSERT_TRUE(standing.has_value());
  EXPECT_EQ(standing->kind, FailureKind::kDead);
  EXPECT_EQ(standing->culprit, 1);
  EXPECT_EQ(standing->reporter, 0);
}

TEST(Segment, AnEndlessFailureTextIsCut) {
  const auto segment = make(2);
  segment->fail({FailureKind::kInternal, 0, 0, std::string(10000, 'x')});
  EXPECT_EQ(segment->failure()->text.size(), kFailureTextBytes - 1);
}

TEST(Segment, ACallIsRememberedUntilItsPlaceIsNeeded) {
  const auto segment = make(2);
  EXPECT_EQ(segment->recall(0, 5), std::nullopt);
  segment->history(0, 5).signature.store(77);
  segment->history(0, 5).number.store(5);
  EXPECT_EQ(segment->recall(0, 5), 77u);
  EXPECT_EQ(segment->recall(0, 5 + kHistoryCount), std::nullopt);
}

TEST(Blobs, AreFoundByKeyUntilManyMoreWerePosted) {
  const auto segment = make(2);
  EXPECT_EQ(text_of(segment->fetch_blob(1, 42)), "(nothing)");
  ASSERT_TRUE(segment->post_blob(1, 42, bytes_of("hello, ranks")).ok());
  EXPECT_EQ(text_of(segment->fetch_blob(1, 42)), "hello, ranks");
  EXPECT_EQ(text_of(segment->fetch_blob(0, 42)), "(nothing)");
  ASSERT_TRUE(segment->post_blob(1, 42, bytes_of("newer")).ok());
  EXPECT_EQ(text_of(segment->fetch_blob(1, 42)), "newer");
  for (std::uint64_t key = 100; key < 100 + kBlobCount; ++key)
    ASSERT_TRUE(segment->post_blob(1, key, bytes_of("")).ok());
  EXPECT_EQ(text_of(segment->fetch_blob(1, 42)), "(nothing)");
  EXPECT_EQ(text_of(segment->fetch_blob(1, 100)), "");
}

TEST(Blobs, LongerThanTheirPlaceAreRefused) {
  const auto segment = make(1);
  const Status posted = segment->post_blob(0, 1, bytes_of(std::string(1025, 'x')));
  ASSERT_FALSE(posted.ok());
  EXPECT_EQ(posted.error().message(), "posting 1025 bytes to the other ranks: at most 1024 fit");
}

TEST(Blobs, AReaderNeverSeesHalfABlob) {
  const auto segment = make(1);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (char c = 'a'; !stop.load(); c = c == 'z' ? 'a' : static_cast<char>(c + 1))
      segment->post_blob(0, 1, bytes_of(std::string(1000, c))).ignore();
  });
  int seen = 0;
  for (int i = 0; i < 10000000 && seen < 2000; ++i) {
    const std::string text = text_of(segment->fetch_blob(0, 1));
    if (text == "(nothing)") {
      std::this_thread::yield();
      continue;
    }
    ++seen;
    if (text != std::string(1000, text[0])) break;
  }
  stop.store(true);
  writer.join();
  EXPECT_EQ(seen, 2000);
}

TEST(Segment, AForkedProcessSharesItAndNothingIsLeftInTheFileSystem) {
  const auto segment = make(2);
  const pid_t child = fork();
  if (child == 0) {
    auto mapped = Segment::map(segment->descriptor());
    if (!mapped.ok()) _exit(1);
    (*mapped)->post_blob(1, 7, bytes_of("from the child")).ignore();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text_of(segment->fetch_blob(1, 7)), "from the child");
}

}  // namespace
}  // namespace sabot::link
