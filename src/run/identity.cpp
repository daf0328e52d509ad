// Identity of the process, from the kernel.
#include "run/identity.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/fd.hpp"
#include "base/random.hpp"

namespace sabot::run {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::uint64_t clock_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000ULL +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

std::string host_name() {
  std::array<char, 65> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0 || buffer[0] == '\0') return "unknown";
  std::string name = buffer.data();
  for (char& c : name)
    if (!is_letter_or_digit(c) && c != '-' && c != '.') c = '_';
  return name;
}

std::string process_tag() { return host_name() + "." + std::to_string(::getpid()); }

std::uint64_t thread_id() { return static_cast<std::uint64_t>(::syscall(SYS_gettid)); }

std::string command_line() {
  const Fd file(::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer{};
  const ssize_t length = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
  std::string text(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text)
    if (c == '\0') c = ' ';
  return text;
}

std::string executable_path() {
  std::array<char, 4096> buffer{};
  const ssize_t length = ::readlink("/proc/self/exe", buffer.data(), buffer.size());
  return {buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

Now now() { return {clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC)}; }

std::uint64_t recent_monotonic_ns() { return clock_ns(CLOCK_MONOTONIC_COARSE); }

std::string file_name_of(std::string_view text) {
  constexpr std::size_t kNameBytesMax = 160;  // below NAME_MAX (255) with room for a suffix
  std::string name;
  for (const char c : text) {
    if (is_letter_or_digit(c) || c == '-' || c == '_') {
      name.push_back(c);
      continue;
    }
    std::array<char, 4> code{};
    std::snprintf(code.data(), code.size(), "%%%02X", static_cast<unsigned>(c) & 0xFFU);
    name.append(code.data());
  }
  if (name.size() <= kNameBytesMax) return name;
  std::array<char, 20> hash{};
  std::snprintf(hash.data(), hash.size(), "~%016llx",
                static_cast<unsigned long long>(hash_text(text)));
  return name.substr(0, kNameBytesMax) + hash.data();
}

std::string errno_text(int error_number) {
  std::array<char, 128> buffer{};
  // The GNU form returns the text and may leave the buffer alone.
  return ::strerror_r(error_number, buffer.data(), buffer.size());
}

}  // namespace sabot::run
