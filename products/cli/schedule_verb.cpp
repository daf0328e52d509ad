// `sabot schedule show`: the steps of an algorithm as text.
#include <algorithm>

#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs.hpp"
#include "schedule/print.hpp"
#include "schedule/schedule.hpp"

namespace sabot::cli {
namespace {

constexpr const char* kExamples = R"(  sabot schedule show allreduce --ranks 4 --bytes 1MiB
  sabot schedule show broadcast --ranks 8 --bytes 64KiB --root 3 --algorithm tree
  sabot schedule show allgather --ranks 2 --bytes 4KiB --type bfloat16 --steps 100
)";

struct ShowWords {
  std::string bytes = "1MiB";
  std::string type = "float32";
  std::string op = "sum";
  std::string algorithm;
  std::uint64_t ranks = 2;
  std::uint64_t root = 0;
  std::uint64_t steps = 16;
};

// The value of an enumeration whose names are name_of(0) … name_of(count - 1).
template <typename T>
Result<T> by_name(const std::string& what, const std::string& word, int count) {
  std::vector<std::string_view> names;
  for (int i = 0; i < count; ++i) names.push_back(name_of(static_cast<T>(i)));
  for (int i = 0; i < count; ++i)
    if (equals_ignoring_case(names[static_cast<std::size_t>(i)], word)) return static_cast<T>(i);
  const auto close = nearest(word, names);
  return Error(Code::kInvalidArgument, "unknown " + what + " '" + word + "'; " +
                                           (close ? "did you mean '" + std::string(*close) + "'?"
                                                  : "choose from " + join(names, ", ")));
}

Result<schedule::Collective> collective_of(const std::string& word) {
  if (const auto collective = schedule::parse_collective(word)) return *collective;
  return by_name<schedule::Collective>("collective", word, schedule::kCollectiveCount);
}

Result<std::string> page(const std::string& collective, const ShowWords& words) {
  schedule::Request request;
  request.collective = SABOT_TRY(collective_of(collective));
  request.type = SABOT_TRY(by_name<DataType>("type", words.type, kDataTypeCount));
  request.op = SABOT_TRY(by_name<ReduceOp>("reduction", words.op, kReduceOpCount));
  request.world = static_cast<int>(words.ranks);
  request.root = static_cast<int>(words.root);
  if (words.root >= words.ranks)
    return Error(Code::kInvalidArgument, "root " + std::to_string(words.root) +
                                             " is not a rank of " + std::to_string(words.ranks));
  const std::uint64_t bytes = SABOT_TRY(parse_bytes(words.bytes));
  request.count = bytes / bytes_of(request.type);
  if (request.count * bytes_of(request.type) != bytes)
    return Error(Code::kInvalidArgument, "'" + words.bytes + "' is no whole number of " +
                                             std::string(name_of(request.type)) + " elements");
  const schedule::Limits limits;
  schedule::Plan plan = schedule::choose(request, limits);
  if (!words.algorithm.empty()) {
    const auto algorithm = SABOT_TRY(
        by_name<schedule::Algorithm>("algorithm", words.algorithm, schedule::kAlgorithmCount));
    const auto asked = schedule::plan_for(algorithm, request, limits);
    if (!asked)
      return Error(Code::kInvalidArgument,
                   "'" + words.algorithm + "' cannot do " + schedule::describe(request));
    plan = *asked;
  }
  return schedule::print(request, plan, words.steps);
}

}  // namespace

int schedule_verb(const Words& words) {
  Parser parser("schedule", "sabot schedule show COLLECTIVE [options]",
                "Prints what each rank does in a collective of the host engine, step by step.");
  ShowWords given;
  parser.number("--ranks", "Ranks of the communicator, 1 to 64; 2 by default.", 1,
                schedule::kRanksMax, given.ranks);
  parser.option("--bytes", "SIZE",
                "Size of the vector, or of one rank's block, as NCCL counts it; 1MiB by default.",
                given.bytes);
  parser.option("--type", "TYPE", "Element type; float32 by default.", given.type);
  parser.option("--op", "OP", "Reduction; sum by default.", given.op);
  parser.number("--root", "The root rank, where there is one.", 0, schedule::kRanksMax - 1,
                given.root);
  parser.option("--algorithm", "NAME",
                "local, flat, two-phase, ring or tree, instead of the one that is chosen.",
                given.algorithm);
  parser.number("--steps", "Steps shown for each rank at most; 16 by default.", 1, 1'000'000,
                given.steps);
  parser.section("Examples", kExamples);
  parser.section("Exit status", "  0  shown\n  2  bad words\n");
  if (const auto status = parser.parse(words)) return *status;
  const Words& rest = parser.rest();
  if (rest.empty() || rest[0] != "show") return parser.refuse("say show and a collective");
  if (rest.size() != 2) return parser.refuse("name one collective, for instance allreduce");
  const Result<std::string> text = page(rest[1], given);
  if (!text.ok()) return parser.refuse(text.error().message());
  print_out(*text);
  return 0;
}

}  // namespace sabot::cli
