// One request, one answer.
#include "launch/control/client.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "launch/control/endpoint.hpp"
#include "run/identity.hpp"

namespace sabot::launch::control {
namespace {

Error silent(const std::string& run_folder) {
  const std::optional<ServerMark> mark = read_server_mark(run_folder);
  return Error(Code::kTimeout, "run '" + run_folder + "' has not answered for " +
                                   std::to_string(kAnswerTimeoutS) + " s; is its launcher" +
                                   (mark ? " (process " + std::to_string(mark->pid) + ")" : "") +
                                   " stopped?");
}

Error gone(const std::string& run_folder) {
  return Error(Code::kNotFound, "run '" + run_folder + "' ended before it answered");
}

Error broken(const std::string& run_folder, int reason) {
  if (reason == EAGAIN || reason == EWOULDBLOCK) return silent(run_folder);
  if (reason == EPIPE || reason == ECONNRESET) return gone(run_folder);
  return Error(Code::kSystem,
               "cannot talk to run '" + run_folder + "': " + run::errno_text(reason));
}

Status send_all(int fd, const std::string& run_folder, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return broken(run_folder, errno);
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

// Up to the newline.
Result<std::string> receive_line(int fd, const std::string& run_folder) {
  std::string line;
  std::array<char, 65536> buffer;
  while (line.size() <= kAnswerBytesMax) {
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return broken(run_folder, errno);
    if (got == 0) return gone(run_folder);
    line.append(buffer.data(), static_cast<std::size_t>(got));
    if (line.back() == '\n') {
      line.pop_back();
      return line;
    }
  }
  return Error(Code::kInternal, "the answer of run '" + run_folder + "' has no end");
}

}  // namespace

Result<run::JsonValue> ask(const std::string& run_folder, const Request& request) {
  const std::string line = to_line(request);
  if (line.size() > kRequestBytesMax)
    return Error(Code::kInvalidArgument, "'" + request.file +
                                             "' is too long for a request: at most " +
                                             std::to_string(kRequestBytesMax) + " bytes as JSON");
  const Fd socket = SABOT_TRY(connect_to(run_folder, kAnswerTimeoutS));
  // A refusal may come before all is sent; then it is what counts.
  const Status sent = send_all(socket.get(), run_folder, line + "\n");
  const Result<std::string> answered = receive_line(socket.get(), run_folder);
  if (!answered.ok()) return sent.ok() ? answered.error() : sent.error();
  run::JsonValue answer = SABOT_TRY(parse_answer(*answered));
  if (!answer["ok"].boolean()) return Error(Code::kInvalidArgument, answer["text"].text());
  return answer;
}

}  // namespace sabot::launch::control
