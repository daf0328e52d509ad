// Looking into /dev/shm, /proc/PID/maps, /proc/PID/fd and /proc/net/unix.
#include "drill/keep/leftovers.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/units.hpp"
#include "run/read/folder_listing.hpp"

namespace sabot::drill {
namespace {

constexpr const char* kShared = "/dev/shm";

std::set<std::string> shared_names() {
  const std::vector<std::string> names = run::list_folder(kShared, "");
  return {names.begin(), names.end()};
}

// Path and inode of every bound socket that has a name in the file system.
std::map<std::string, std::string> bound_sockets() {
  std::map<std::string, std::string> out;
  std::ifstream file("/proc/net/unix");
  for (std::string line; std::getline(file, line);) {
    // Num RefCount Protocol Flags Type St Inode Path
    std::istringstream words(line);
    std::string skipped, inode, path;
    for (int i = 0; i < 6; ++i) words >> skipped;
    if (words >> inode >> path && path[0] == '/') out[path] = inode;
  }
  return out;
}

// What the descriptors of a process lead to: paths, and "socket:[123]".
std::vector<std::string> descriptors_of(pid_t pid) {
  std::vector<std::string> out;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (!entries) return out;
  while (const dirent* entry = ::readdir(entries.get())) {
    std::array<char, PATH_MAX> target{};
    const std::string link = folder + "/" + entry->d_name;
    const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
    if (length > 0) out.emplace_back(target.data(), static_cast<std::size_t>(length));
  }
  return out;
}

// The files below /dev/shm that a process has mapped or open.
std::set<std::string> shared_files_of(pid_t pid) {
  std::set<std::string> out;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find(" /dev/shm/");
    if (at != std::string::npos) out.insert(line.substr(at + 1));
  }
  for (const std::string& target : descriptors_of(pid))
    if (target.starts_with("/dev/shm/")) out.insert(target);
  return out;
}

}  // namespace

Leftovers::Leftovers(std::string folder) : folder_(std::move(folder)), before_(shared_names()) {
  for (const auto& [path, inode] : bound_sockets()) sockets_before_.insert(path);
}

void Leftovers::look(const std::vector<Process>& processes) {
  look_at_shared_memory(processes);
  look_at_sockets(processes);
}

void Leftovers::look_at_shared_memory(const std::vector<Process>& processes) {
  bool is_unclaimed = false;
  for (const std::string& name : shared_names())
    is_unclaimed |= !before_.contains(name) && !ours_.contains(kShared + ("/" + name));
  if (!is_unclaimed) return;
  for (const Process& process : processes)
    for (const std::string& path : shared_files_of(process.pid))
      if (!before_.contains(path.substr(path.rfind('/') + 1))) ours_.insert(path);
}

void Leftovers::look_at_sockets(const std::vector<Process>& processes) {
  std::map<std::string, std::string> unclaimed;  // "socket:[INODE]" → path
  for (const auto& [path, inode] : bound_sockets())
    if (!sockets_before_.contains(path) && !our_sockets_.contains(path) &&
        !path.starts_with(folder_))
      unclaimed["socket:[" + inode + "]"] = path;
  if (unclaimed.empty()) return;
  for (const Process& process : processes)
    for (const std::string& target : descriptors_of(process.pid))
      if (const auto found = unclaimed.find(target); found != unclaimed.end())
        our_sockets_.insert(found->second);
}

std::vector<std::string> Leftovers::remaining() const {
  std::vector<std::string> out;
  struct stat facts {};
  for (const std::string& path : ours_)
    if (::stat(path.c_str(), &facts) == 0)
      out.push_back(path + " (" + format_bytes(static_cast<std::uint64_t>(facts.st_size)) + ")");
  const std::map<std::string, std::string> bound = bound_sockets();
  for (const std::string& path : our_sockets_)
    if (!bound.contains(path) && ::stat(path.c_str(), &facts) == 0) out.push_back("socket " + path);
  return out;
}

}  // namespace sabot::drill
