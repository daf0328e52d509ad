// Which launchers are at work in a run folder: launchers/HOST.PID, there from start to end.
//
// Under srun or mpirun each task has its own `sabot run` in one shared folder, and they end one
// after the other. Whether a fault fired in the run is known only when the last of them ends, so
// each takes its mark away and looks whether others are left. A mark of a launcher on this host
// that no longer lives is ignored; of other hosts a mark is believed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace sabot::run {

class LauncherMark {
 public:
  static Result<LauncherMark> place(const std::string& run_folder, const std::string& tag);
  LauncherMark(LauncherMark&& other) noexcept;
  LauncherMark& operator=(LauncherMark&&) = delete;
  ~LauncherMark();

  // Takes the mark away and counts the others; outer is the launcher around this one, which waits
  // for it.
  std::uint64_t remove_and_count_others(std::string_view outer);

 private:
  LauncherMark(std::string folder, std::string tag)
      : folder_(std::move(folder)), tag_(std::move(tag)) {}

  std::string folder_;
  std::string tag_;  // "" = taken away
};

}  // namespace sabot::run
