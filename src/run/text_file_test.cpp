// Files that people hand us: every way to be no scenario has its sentence, and none of them blocks.
#include "run/text_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "run/scratch_folder_test.hpp"

namespace sabot::run {
namespace {

class TextFile : public ScratchFolder {
 protected:
  static std::string error_of(const std::string& path, const ReadLimits& limits = {}) {
    const Result<std::string> text = read_text_file("scenario", path, limits);
    return text.ok() ? "accepted: " + *text : text.error().message();
  }
  static void write(const std::string& path, std::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
  }
};

TEST_F(TextFile, ATextFileIsReadAsItIs) {
  write("a.toml", "sabot = 1\nname = \"größe\"\n");
  EXPECT_EQ(*read_text_file("scenario", "a.toml"), "sabot = 1\nname = \"größe\"\n");
}

TEST_F(TextFile, AMissingFileIsNamedWithTheNearestOfItsFolder) {
  EXPECT_EQ(error_of("nowhere.toml"), "cannot read scenario 'nowhere.toml': there is no such file");
  std::filesystem::create_directory("drills");
  write("drills/allreduce.toml", "x");
  EXPECT_EQ(error_of("drills/alreduce.toml"),
            "cannot read scenario 'drills/alreduce.toml': there is no such file; did you mean "
            "'drills/allreduce.toml'?");
}

TEST_F(TextFile, ADirectoryADeviceAndAnEmptyFileAreRefused) {
  EXPECT_EQ(error_of("."), "cannot read scenario '.': it is a directory");
  EXPECT_EQ(error_of("/dev/null"),
            "cannot read scenario '/dev/null': it is neither a file nor a pipe");
  write("empty.toml", "");
  EXPECT_EQ(error_of("empty.toml"), "cannot read scenario 'empty.toml': it is empty");
}

TEST_F(TextFile, ABinaryFileIsRefusedWithTheFirstByteThatIsNoText) {
  write("nul.toml", std::string_view("sabot\0", 6));
  EXPECT_EQ(error_of("nul.toml"),
            "cannot read scenario 'nul.toml': it is not UTF-8 text (byte 0x00 at offset 5)");
  write("latin1.toml",
        "gr\xf6\xdf"
        "e");
  EXPECT_EQ(error_of("latin1.toml"),
            "cannot read scenario 'latin1.toml': it is not UTF-8 text (byte 0xf6 at offset 2)");
}

TEST_F(TextFile, AFileOf100MegabytesIsRefusedWithoutBeingRead) {
  write("big.toml", "x");
  std::filesystem::resize_file("big.toml", 100ULL * 1024 * 1024);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(
      error_of("big.toml"),
      "cannot read scenario 'big.toml': it is 104857600 bytes long; a scenario is at most 1MiB");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  struct stat facts {};
  ::stat("big.toml", &facts);
  EXPECT_LT(facts.st_blocks, 100) << "the file has holes: reading it is what the test is about";
}

TEST_F(TextFile, AFileOfExactlyTheLimitIsRead) {
  write("limit.toml", std::string(kScenarioBytesMax, 'x'));
  EXPECT_EQ(read_text_file("scenario", "limit.toml")->size(), kScenarioBytesMax);
  write("over.toml", std::string(kScenarioBytesMax + 1, 'x'));
  EXPECT_EQ(
      error_of("over.toml"),
      "cannot read scenario 'over.toml': it is 1048577 bytes long; a scenario is at most 1MiB");
}

TEST_F(TextFile, APipeIsReadToItsEndOrToTheLimit) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "sabot = 1", 9), 9);
  ::close(ends[1]);
  EXPECT_EQ(*read_text_file("scenario", "/dev/fd/" + std::to_string(ends[0])), "sabot = 1");
  ::close(ends[0]);
}

TEST_F(TextFile, APipeThatStaysOpenEndsInAnErrorAfterABoundedTime) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const std::string path = "/dev/fd/" + std::to_string(ends[0]);
  EXPECT_EQ(error_of(path, {.wait_ms = 1000}),
            "cannot read scenario '" + path + "': nothing more came through the pipe for 1 s");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(TextFile, AFifoWithoutAWriterDoesNotBlock) {
  ASSERT_EQ(::mkfifo("fifo", 0600), 0);
  EXPECT_EQ(error_of("fifo"), "cannot read scenario 'fifo': it is empty");
}

TEST_F(TextFile, WritingReplacesAndLeavesNoTemporaryBehind) {
  ASSERT_TRUE(write_file("record.json", "one").ok());
  ASSERT_TRUE(write_file("record.json", "two").ok());
  EXPECT_EQ(*read_text_file("record", "record.json"), "two");
  EXPECT_TRUE(*create_file_once("mark", "first"));
  EXPECT_FALSE(*create_file_once("mark", "second"));
  EXPECT_EQ(*read_text_file("mark", "mark"), "first");
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(".")) ++entries;
  EXPECT_EQ(entries, 2u);
}

TEST_F(TextFile, AFullDiskAndAMissingFolderAreErrorsWithTheReason) {
  EXPECT_EQ(write_file("no/such/folder/x", "text").error().message(),
            "cannot write 'no/such/folder/x': No such file or directory");
  EXPECT_EQ(make_folders("/dev/null/x").error().message(),
            "cannot create folder '/dev/null/x': Not a directory");
  write("file", "x");
  EXPECT_EQ(make_folders("file").error().message(), "cannot create folder 'file': it is a file");
}

}  // namespace
}  // namespace sabot::run
