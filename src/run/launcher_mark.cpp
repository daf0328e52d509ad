// Marks as empty files.
#include "run/launcher_mark.hpp"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <utility>

#include "run/identity.hpp"
#include "run/read/folder_listing.hpp"
#include "run/text_file.hpp"

namespace sabot::run {
namespace {

// HOST.PID of a process of this host that has ended.
bool is_gone(std::string_view tag) {
  const std::size_t dot = tag.rfind('.');
  if (dot == tag.npos || tag.substr(0, dot) != host_name()) return false;
  int pid = 0;
  const char* const end = tag.data() + tag.size();
  const auto [stop, error] = std::from_chars(tag.data() + dot + 1, end, pid);
  if (error != std::errc{} || stop != end || pid <= 0) return false;
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace

Result<LauncherMark> LauncherMark::place(const std::string& run_folder, const std::string& tag) {
  const std::string folder = run_folder + "/launchers";
  SABOT_TRY(make_folders(folder));
  SABOT_TRY(write_file(folder + "/" + tag, ""));
  return LauncherMark(folder, tag);
}

LauncherMark::LauncherMark(LauncherMark&& other) noexcept
    : folder_(std::move(other.folder_)), tag_(std::exchange(other.tag_, "")) {}

LauncherMark::~LauncherMark() {
  if (!tag_.empty()) ::unlink((folder_ + "/" + tag_).c_str());
}

std::uint64_t LauncherMark::remove_and_count_others(std::string_view outer) {
  if (!tag_.empty()) ::unlink((folder_ + "/" + tag_).c_str());
  tag_.clear();
  std::uint64_t others = 0;
  for (const std::string& other : list_folder(folder_, ""))
    if (other != outer && !is_gone(other)) ++others;
  return others;
}

}  // namespace sabot::run
