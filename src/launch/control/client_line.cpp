// Reading, answering and writing without ever waiting.
#include "launch/control/client_line.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "launch/control/request.hpp"
#include "launch/control/server.hpp"

namespace sabot::launch::control {
namespace {

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

ClientLine::ClientLine(Fd socket, Clock::time_point now)
    : socket_(std::move(socket)), deadline_(now + std::chrono::milliseconds(kPatienceMs)) {}

short ClientLine::awaited() const { return output_.empty() ? POLLIN : POLLOUT; }

void ClientLine::dismiss(std::string text) {
  output_ = to_line(Answer{.is_ok = false, .text = std::move(text)}) + "\n";
  is_dismissed_ = true;
}

bool ClientLine::read_some() {
  std::array<char, 65536> buffer;
  const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0) return would_block();
  if (got == 0) has_ended_ = true;
  input_.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

bool ClientLine::write_some() {
  const ssize_t sent = ::send(fd(), output_.data(), output_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return would_block();
  output_.erase(0, static_cast<std::size_t>(sent));
  return true;
}

void ClientLine::take_line(const Answerer& answer) {
  const std::size_t end = input_.find('\n', searched_);
  searched_ = input_.size();
  if (end == input_.npos) {
    if (input_.size() > kRequestBytesMax)
      dismiss("a request is at most " + std::to_string(kRequestBytesMax) + " bytes long");
    return;
  }
  output_ = answer(std::string_view(input_).substr(0, end)) + "\n";
  input_.erase(0, end + 1);
  searched_ = 0;
}

bool ClientLine::step(const Answerer& answer, Clock::time_point now) {
  if (now >= deadline_) return false;
  const bool was_reading = output_.empty();
  if (!(was_reading ? read_some() : write_some())) return false;
  if (!output_.empty()) return true;
  if (!was_reading) {
    if (is_dismissed_) return false;
    deadline_ = now + std::chrono::milliseconds(kPatienceMs);
  }
  // A second line may have come with the first.
  take_line(answer);
  return !output_.empty() ? true : !has_ended_;
}

}  // namespace sabot::launch::control
