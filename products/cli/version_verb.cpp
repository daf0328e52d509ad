// `sabot version`: what this is, and the parts it would use.
#include <unistd.h>

#include "cli/terminal.hpp"
#include "cli/verbs.hpp"

namespace sabot::cli {
namespace {

std::string part(const std::string& name, const std::string& path) {
  const bool there = ::access(path.c_str(), R_OK) == 0;
  return "  " + name + (there ? "" : "MISSING ") + path + "\n";
}

}  // namespace

int version_verb(const Words& words) {
  Parser parser("version", "sabot version", "Prints the version and where the parts are.");
  if (const auto status = parser.parse(words)) return *status;
  if (!parser.rest().empty()) return parser.refuse("unknown word '" + parser.rest()[0] + "'");
  const std::optional<launch::Surroundings> around = surroundings();
  if (!around) return kStatusUsage;
  const launch::Installation& installation = around->installation;
  print_out("sabot " + around->version + ", API of NCCL " SABOT_NCCL_API_VERSION "\n" +
            part("preload   ", installation.preload()) +
            part("stand-in  ", installation.standin()) +
            part("demo      ", installation.demo_program()));
  return 0;
}

}  // namespace sabot::cli
