// Whole files: the checks before reading, the bounded read, the atomic write.
#include "run/text_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/fd.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "run/identity.hpp"
#include "run/json_writer.hpp"

namespace sabot::run {
namespace {

// "; did you mean 'x.toml'?" from the files of the same kind beside the missing one, else "".
// Endings are left out of the comparison, as they would make any two names look alike.
std::string suggestion_beside(const std::string& path) {
  constexpr std::size_t kEntriesMax = 1000;
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "" : path.substr(0, slash + 1);
  const std::string name = path.substr(folder.size());
  const std::string ending = name.substr(std::min(name.rfind('.'), name.size()));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(
      ::opendir(folder.empty() ? "." : folder.c_str()), &::closedir);
  if (!entries) return "";
  std::vector<std::string> stems;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view other = entry->d_name;
    if (other.starts_with('.') || !other.ends_with(ending)) continue;
    stems.emplace_back(other.substr(0, other.size() - ending.size()));
    if (stems.size() >= kEntriesMax) break;
  }
  const std::vector<std::string_view> views(stems.begin(), stems.end());
  const auto close = nearest(name.substr(0, name.size() - ending.size()), views);
  return close ? "; did you mean '" + folder + std::string(*close) + ending + "'?" : "";
}

Status check_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length > 0 && text[at] != '\0') {
      at += length;
      continue;
    }
    std::array<char, 64> where{};
    std::snprintf(where.data(), where.size(), "byte 0x%02x at offset %zu",
                  static_cast<unsigned>(text[at]) & 0xFFU, at);
    return Error(Code::kInvalidArgument,
                 std::string("it is not UTF-8 text (") + where.data() + ")");
  }
  return {};
}

Error too_long(const std::string& what, const std::string& length, std::uint64_t bytes_max) {
  return Error(Code::kInvalidArgument,
               "it is " + length + " long; a " + what + " is at most " + format_bytes(bytes_max));
}

// Reads to the end or one byte past the limit, whichever comes first.
Result<std::string> read_bounded(int fd, const ReadLimits& limits) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(limits.wait_ms);
  std::string text;
  std::array<char, 16384> buffer{};
  while (text.size() <= limits.bytes_max) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) break;
    if (got > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return Error(Code::kSystem, errno_text(errno));
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0)
      return Error(Code::kTimeout, "nothing more came through the pipe for " +
                                       std::to_string(limits.wait_ms / 1000) + " s");
    pollfd wait{fd, POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(left));
  }
  return text;
}

Result<std::string> read_checked(const std::string& what, const std::string& path,
                                 const ReadLimits& limits) {
  // O_NONBLOCK: opening a FIFO that nobody writes to must not block.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid() && errno == ENOENT)
    return Error(Code::kNotFound, "there is no such file" + suggestion_beside(path));
  if (!file.valid()) return Error(Code::kSystem, errno_text(errno));
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return Error(Code::kSystem, errno_text(errno));
  if (S_ISDIR(facts.st_mode)) return Error(Code::kInvalidArgument, "it is a directory");
  if (!S_ISREG(facts.st_mode) && !S_ISFIFO(facts.st_mode))
    return Error(Code::kInvalidArgument, "it is neither a file nor a pipe");
  if (S_ISREG(facts.st_mode) && static_cast<std::uint64_t>(facts.st_size) > limits.bytes_max)
    return too_long(what, std::to_string(facts.st_size) + " bytes", limits.bytes_max);
  std::string text = SABOT_TRY(read_bounded(file.get(), limits));
  if (text.size() > limits.bytes_max)
    return too_long(what, "more than " + std::to_string(limits.bytes_max) + " bytes",
                    limits.bytes_max);
  if (text.empty() && !limits.may_be_empty) return Error(Code::kInvalidArgument, "it is empty");
  SABOT_TRY(check_text(text));
  return text;
}

Error cannot(const char* doing, const std::string& path, int error_number) {
  return Error(Code::kSystem,
               std::string("cannot ") + doing + " '" + path + "': " + errno_text(error_number));
}

}  // namespace

Result<std::string> read_text_file(const std::string& what, const std::string& path,
                                   const ReadLimits& limits) {
  Result<std::string> text = read_checked(what, path, limits);
  if (text.ok()) return text;
  const Error& cause = text.error();
  return Error(cause.code(), "cannot read " + what + " '" + path + "': " + cause.message());
}

Status write_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + "." + std::to_string(thread_id()) + ".tmp";
  {
    const Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file.valid()) return cannot("write", path, errno);
    if (!log::write_all(file.get(), content)) {
      const int reason = errno;
      ::unlink(temporary.c_str());
      return cannot("write", path, reason);
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const int reason = errno;
  ::unlink(temporary.c_str());
  return cannot("write", path, reason);
}

Result<bool> create_file_once(const std::string& path, std::string_view content) {
  const std::string temporary = path + "." + process_tag() + ".tmp";
  SABOT_TRY(write_file(temporary, content));
  const int linked = ::link(temporary.c_str(), path.c_str());
  const int reason = errno;
  ::unlink(temporary.c_str());
  if (linked == 0) return true;
  if (reason == EEXIST) return false;
  // A file system without hard links: exclusive creation, where a reader may see the file half
  // written.
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid() && errno == EEXIST) return false;
  if (!file.valid()) return cannot("create", path, errno);
  if (!log::write_all(file.get(), content)) return cannot("write", path, errno);
  return true;
}

Status make_folders(const std::string& path) {
  for (std::size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0777) == 0 || errno == EEXIST) continue;
    return cannot("create folder", part, errno);
  }
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return cannot("create folder", path, errno);
  if (!S_ISDIR(facts.st_mode))
    return Error(Code::kInvalidArgument, "cannot create folder '" + path + "': it is a file");
  return {};
}

}  // namespace sabot::run
