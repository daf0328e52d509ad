// The socket of a run and the lock beside it.
#include "launch/control/endpoint.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "base/text.hpp"
#include "run/identity.hpp"
#include "run/json_writer.hpp"
#include "run/read/folder_listing.hpp"
#include "run/read/json_value.hpp"
#include "run/text_file.hpp"

namespace sabot::launch::control {
namespace {

constexpr const char* kSocket = "/control.sock";
constexpr const char* kMark = "/control.server";
constexpr int kBacklog = 16;

Error cannot(const std::string& doing, const std::string& path, int reason) {
  return Error(Code::kSystem, "cannot " + doing + " '" + path + "': " + run::errno_text(reason));
}

// An address of the run's socket; a long path leads over an open folder.
struct Address {
  sockaddr_un name{};
  Fd folder{};

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

Result<Address> address_in(const std::string& run_folder) {
  Address address;
  address.name.sun_family = AF_UNIX;
  std::string path = run_folder + kSocket;
  if (path.size() >= sizeof(address.name.sun_path)) {
    address.folder = Fd(::open(run_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!address.folder.valid()) return cannot("open run folder", run_folder, errno);
    path = "/proc/self/fd/" + std::to_string(address.folder.get()) + kSocket;
  }
  std::memcpy(address.name.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<Fd> new_socket(int flags) {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!socket.valid())
    return Error(Code::kSystem, "cannot make a socket: " + run::errno_text(errno));
  return socket;
}

std::string owner_of(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return "somebody else";
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(facts.st_uid, &entry, buffer.data(), buffer.size(), &found);
  return found == nullptr ? "user " + std::to_string(facts.st_uid)
                          : "user " + std::string(entry.pw_name);
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// A run beside the one that was asked for.
std::string suggestion_for(const std::string& run_folder) {
  const std::size_t slash = run_folder.rfind('/');
  const std::string beside = slash == run_folder.npos ? "." : run_folder.substr(0, slash);
  const std::vector<std::string> names = run::list_folder(beside, "");
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto close = nearest(run_folder.substr(slash == run_folder.npos ? 0 : slash + 1), views);
  return close ? "; did you mean '" + (slash == run_folder.npos ? "" : beside + "/") +
                     std::string(*close) + "'?"
               : "";
}

Error not_there(const std::string& run_folder) {
  if (!exists(run_folder))
    return Error(Code::kNotFound,
                 "there is no run folder '" + run_folder + "'" + suggestion_for(run_folder));
  if (!exists(run_folder + "/config.json"))
    return Error(Code::kNotFound,
                 "'" + run_folder + "' is no run folder of `sabot run`: it has no config.json");
  return Error(Code::kNotFound, "run '" + run_folder +
                                    "' has ended, or is not controlled: nothing "
                                    "serves its control.sock");
}

Error nobody_answers(const std::string& run_folder) {
  const std::optional<ServerMark> mark = read_server_mark(run_folder);
  const std::string who =
      mark ? "process " + std::to_string(mark->pid) + " on host " + mark->host : "its launcher";
  if (mark && mark->host != run::host_name())
    return Error(Code::kNotFound,
                 "run '" + run_folder + "' is controlled by " + who + "; give this command there");
  return Error(Code::kNotFound, "run '" + run_folder + "' has ended: its launcher (" + who +
                                    ") is gone without a farewell");
}

}  // namespace

std::optional<ServerMark> read_server_mark(const std::string& run_folder) {
  const Result<std::string> text = run::read_text_file("server mark", run_folder + kMark);
  if (!text.ok()) return std::nullopt;
  const Result<run::JsonValue> mark = run::JsonValue::parse(*text);
  if (!mark.ok() || (*mark)["host"].text().empty()) return std::nullopt;
  return ServerMark{(*mark)["host"].text(), (*mark)["pid"].integer()};
}

Result<std::optional<ServingLock>> ServingLock::take(const std::string& run_folder) {
  const std::string path = run_folder + kMark;
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.valid()) return cannot("open", path, errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::optional<ServingLock>();
    return cannot("lock", path, errno);
  }
  run::JsonWriter json;
  json.begin_object().field("host", run::host_name()).field("pid", ::getpid()).end_object();
  if (::ftruncate(file.get(), 0) != 0 || !log::write_all(file.get(), json.text() + "\n"))
    return cannot("write", path, errno);
  return std::optional<ServingLock>(ServingLock(std::move(file)));
}

Result<Fd> listen_in(const std::string& run_folder) {
  const std::string path = run_folder + kSocket;
  const Address address = SABOT_TRY(address_in(run_folder));
  Fd socket = SABOT_TRY(new_socket(SOCK_NONBLOCK));
  ::unlink(path.c_str());
  // On Linux the mode of the socket becomes that of its file: there is no moment in which others
  // could connect.
  if (::fchmod(socket.get(), 0600) != 0) return cannot("protect", path, errno);
  if (::bind(socket.get(), address.get(), sizeof(address.name)) != 0)
    return cannot("make the socket", path, errno);
  if (::chmod(path.c_str(), 0600) != 0) return cannot("protect", path, errno);
  if (::listen(socket.get(), kBacklog) != 0) return cannot("listen at", path, errno);
  return socket;
}

void remove_socket(const std::string& run_folder) { ::unlink((run_folder + kSocket).c_str()); }

Result<Fd> connect_to(const std::string& run_folder, int timeout_s) {
  if (!exists(run_folder + kSocket)) return not_there(run_folder);
  const Address address = SABOT_TRY(address_in(run_folder));
  Fd socket = SABOT_TRY(new_socket(0));
  const timeval limit{timeout_s, 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (::connect(socket.get(), address.get(), sizeof(address.name)) == 0) return socket;
  const int reason = errno;
  if (reason == ECONNREFUSED) return nobody_answers(run_folder);
  if (reason == ENOENT) return not_there(run_folder);
  if (reason == EACCES || reason == EPERM)
    return Error(Code::kInvalidUsage, "run '" + run_folder + "' belongs to " +
                                          owner_of(run_folder + kSocket) +
                                          ", and only they may control it");
  if (reason == EAGAIN)
    return Error(Code::kTimeout, "run '" + run_folder + "' does not take more requests");
  return cannot("connect to", run_folder + kSocket, reason);
}

}  // namespace sabot::launch::control
