// The boot id is the right identity: memfds and abstract sockets reach exactly as far as one
// kernel.
#include "world/machine.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace sabot::world {

Result<std::uint64_t> random_bits() {
  std::uint64_t bits = 0;
  ssize_t got = -1;
  do {
    got = ::getrandom(&bits, sizeof bits, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof bits)) {
    return Error(Code::kSystem, std::string("getrandom: ") + std::strerror(errno));
  }
  return bits;
}

std::string machine_identity() {
  const Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const ssize_t got = file.valid() ? ::read(file.get(), text.data(), text.size()) : -1;
  if (got <= 0) return "name:" + machine_name();
  return std::string(trim(std::string_view(text.data(), static_cast<std::size_t>(got))));
}

std::string machine_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "?";
}

}  // namespace sabot::world
