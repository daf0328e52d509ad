// Writing to the standard streams.
#include "cli/terminal.hpp"

#include <unistd.h>

#include "base/log.hpp"
#include "config/snapshot.hpp"

namespace sabot::cli {

using config::KnobId;

void print_out(std::string_view text) { log::write_all(1, text); }

void print_error(std::string_view text) { log::write_all(2, std::string(text) + "\n"); }

Paint::Paint(int fd)
    : coloured_(::isatty(fd) == 1 && !config::process().is_set(KnobId::kNoColor) &&
                config::process().get<KnobId::kTerm>() != "dumb") {}

std::string Paint::wrap(const char* code, std::string_view text) const {
  if (!coloured_) return std::string(text);
  return std::string(code).append(text) + "\033[0m";
}

}  // namespace sabot::cli
