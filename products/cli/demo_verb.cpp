// `sabot demo`: the experiment in one command.
#include "cli/terminal.hpp"
#include "cli/verbs.hpp"
#include "launch/demo/demo.hpp"

namespace sabot::cli {
namespace {

constexpr const char* kMeaning =
    R"(  1. A program of several processes all-reduces five times: every sum is checked.
  2. The same program under a scenario: the third all-reduce of rank 1 returns
     ncclSystemError. Shown are the error as the program saw it on that rank, what
     every other rank saw, and the line of the journal that proves the firing.
  Nothing is installed and no GPU is used; what was written stays in DIR.
)";

constexpr const char* kStatuses = R"(  0  all of it really happened
  1  something did not, and is named
  2  bad words, or a part of the installation is missing
)";

std::string painted(const Paint& paint, launch::Tone tone, std::string_view line) {
  switch (tone) {
    case launch::Tone::kPlain: return std::string(line);
    case launch::Tone::kHeading: return "\n" + paint.bold(line);
    case launch::Tone::kQuiet: return paint.dim(line);
    case launch::Tone::kGood: return paint.green(line);
    case launch::Tone::kBad: return paint.red(line);
  }
  return std::string(line);
}

}  // namespace

int demo_verb(const Words& words) {
  Parser parser("demo", "sabot demo [options]",
                "Shows a fault arriving in a program of several processes, and proves it.");
  launch::DemoOptions options;
  parser.number("--ranks", "Processes, 2 to 64; 2 by default.", 2, 64, options.shape.ranks);
  parser.number("--calls", "All-reduces of each, 3 to 1000; 5 by default.", 3, 1000,
                options.shape.calls);
  parser.option("--folder", "DIR", "Where both runs write; runs/demo-TIME-PID by default.",
                options.folder);
  parser.section("What it shows", kMeaning);
  parser.section("Exit status", kStatuses);
  if (const auto status = parser.parse(words)) return *status;
  if (!parser.rest().empty()) return parser.refuse("unknown word '" + parser.rest()[0] + "'");
  const std::optional<launch::Surroundings> around = surroundings();
  if (!around) return kStatusUsage;
  const Paint paint(1);
  return launch::demo(options, around->installation, around->environment,
                      [&paint](launch::Tone tone, std::string_view line) {
                        print_out(painted(paint, tone, line) + "\n");
                      });
}

}  // namespace sabot::cli
