// A folder of its own for each test, removed afterwards; the working directory can be moved into
// it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace sabot::run {

class ScratchFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "sabot-run-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = std::filesystem::canonical(pattern).string();
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(path_);
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(path_);
  }
  std::string path_;

 private:
  std::filesystem::path before_;
};

}  // namespace sabot::run
