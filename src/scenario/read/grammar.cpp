// The rows. Texts are written for the reader of an error message: "expected …" and "found …"
// complete them; examples are checked by a test to be accepted.
#include "scenario/read/grammar.hpp"

#include <algorithm>
#include <array>

namespace sabot::scenario::read {
namespace {

constexpr std::string_view kNumbersText =
    R"(a number, a list, or a text such as "0-3", ">=4", "!=0" or "0,4-7")";
constexpr std::string_view kBytesText =
    R"(a number of bytes or a text such as "4KiB", ">=1MiB", "<4KiB" or "4KiB..1MiB")";
constexpr std::string_view kDurationText = R"(a duration such as "200ms", "1.5s" or "2m")";
constexpr std::string_view kPatternText = R"(a text or a list of texts; '*' and '?' are wildcards)";

constexpr std::array<KeyRow, 6> kScenarioRows{{
    {"sabot", "the number 1", "the version of this format", "sabot = 1"},
    {"name", "a text", "what the scenario shows, in one sentence",
     R"(name = "a system error on rank 1")"},
    {"seed", "a whole number", "decides every probability: the same seed, the same decisions",
     "seed = 42"},
    {"ranks", "a whole number from 1",
     "how many ranks the job has; ranks that cannot exist are then refused", "ranks = 4"},
    {"fault", "tables, each under its own [[fault]]", "the faults, in order of precedence",
     "[[fault]]"},
    {"expect", "a table", "what the job is expected to do, judged by `sabot drill`", "[expect]"},
}};

constexpr std::array<KeyRow, 5> kFaultRows{{
    {"name", "a text of letters, digits, '-', '_' and '.'",
     "how messages, the journal and [expect] call it; \"fault-1\" and so on if left out",
     R"(name = "nic-dies")"},
    {"when", "a table of conditions", "when it fires: all conditions hold",
     R"(when = { call = "AllReduce", rank = 1, nth = 3 })"},
    {"do", "a table with one action", "what it does", R"(do = { error = "SystemError" })"},
    {"budget", "a whole number from 1",
     "most firings in the run, on all ranks and in all attempts; no limit if left out",
     "budget = 1"},
    {"armed", "true or false",
     "false: it does nothing and counts nothing until `sabot ctl RUN arm NAME`; true if left out",
     "armed = false"},
}};

constexpr std::array<KeyRow, kConditionCount> kTriggerRows{{
    {"call", "a function, a group of functions, or a list of them",
     "which calls; '|' separates alternatives; Broadcast means Bcast, its older form, too",
     R"(call = "AllReduce|AllGather")"},
    {"rank", kNumbersText, "rank in the comm of the call", "rank = [2, 3]"},
    {"world_rank", kNumbersText, "rank in the whole job", R"(world_rank = "0-3")"},
    {"host", kPatternText, "host name", R"(host = "node-1*")"},
    {"comm",
     R"(a label such as "c0" or "c0/*", a name such as "name:dp*", a size such as ">=4", a list)",
     "the communicator: c0, c1 … in order of creation, c0/s0 the first split of c0; or its "
     "name, or its number of ranks",
     R"(comm = "c0")"},
    {"bytes", kBytesText, "count × size of the data type", R"(bytes = ">=1MiB")"},
    {"count", kNumbersText, "the count argument", R"(count = "1-1024")"},
    {"datatype", "a data type or a list of them", "the data type",
     R"(datatype = ["float16", "bfloat16"])"},
    {"redop", "a reduction or a list of them",
     "the reduction; \"user\" is any that the application created", R"(redop = "sum")"},
    {"root", kNumbersText, "the root argument", "root = 0"},
    {"peer", kNumbersText, "the other rank of Send, Recv and one-sided calls", R"(peer = "!=0")"},
    {"attempt", kNumbersText, "restarts of the job so far; the first start is 0", "attempt = 0"},
    {"captured", "true or false", "whether the stream is being captured into a CUDA graph",
     "captured = false"},
    {"after", kDurationText, "not before this time since the process started", R"(after = "30s")"},
    {"after_first_call", kDurationText, "not before this time since the first call",
     R"(after_first_call = "10s")"},
    {"switch", "the name of a switch", "only while this switch is on", R"(switch = "chaos")"},
    {"nth", "a whole number from 1", "only the n-th call that meets all other conditions",
     "nth = 3"},
    {"range", R"(numbers from 1 such as "3-7", "3.." or "1,5-6")",
     "only these of the calls that meet all other conditions", R"(range = "3-7")"},
    {"every", "a whole number from 1", "every n-th of the calls that meet all other conditions",
     "every = 10"},
    {"probability", "a number from 0 to 1",
     "drawn from the seed for each call that is left; the same in every run", "probability = 0.01"},
}};

constexpr std::array<KeyRow, 7> kExpectRows{{
    {"outcome",
     R"("completes", "recovers", "fails-cleanly", "hangs", "dies-dirty", "wrong-result", or some)",
     "how the job ends; '|' or a list gives alternatives", R"(outcome = "recovers")"},
    {"detected_within", kDurationText, "the application sees the failure within this time",
     R"(detected_within = "10s")"},
    {"finished_within", kDurationText, "the job ends within this time",
     R"(finished_within = "120s")"},
    {"fired", "a table from names of faults to numbers", "how often each fault fired",
     R"(fired = { "nic-dies" = 1 })"},
    {"check", "true or false",
     "whether the check command of the drill agrees that the result is that of the baseline",
     "check = true"},
    {"steps_lost", kNumbersText,
     "how many steps of the job had to be done again or were never done", R"(steps_lost = "<=50")"},
    {"attempts", R"(numbers from 1 such as 2, "1-3" or ">=2")",
     "how many times the job was started, restarts included", "attempts = 2"},
}};

constexpr std::array<std::string_view, 2> kPlaceWords{"before", "after"};
constexpr std::array<std::string_view, 2> kSideWords{"stream", "host"};
constexpr std::array<std::string_view, 3> kSpreadWords{"uniform", "normal", "exponential"};
constexpr std::array<std::string_view, 5> kMismatchWords{"count", "datatype", "redop", "root",
                                                         "call"};
constexpr std::array<std::string_view, 5> kCorruptWords{"bit-flip", "nan", "scale", "zero",
                                                        "stale"};
constexpr std::array<std::string_view, 8> kCrashWords{"abort",   "SIGKILL", "SIGTERM", "SIGINT",
                                                      "SIGSEGV", "SIGBUS",  "SIGFPE",  "SIGSTOP"};
constexpr std::array<std::string_view, 5> kLinkWords{"drop", "delay", "throttle", "cut",
                                                     "partition"};
constexpr std::array<std::string_view, 2> kExhaustWords{"allocation", "registration"};

constexpr ParameterRow kErrorParameters[] = {
    {"error", Shape::kResult, {}, {}, "the result code that the call returns", R"("SystemError")"},
    {"at", Shape::kWord, kPlaceWords, "before",
     "instead of the real call, or after it has been made", R"("after")"},
};
constexpr ParameterRow kAsyncErrorParameters[] = {
    {"async_error",
     Shape::kResult,
     {},
     {},
     "the code that ncclCommGetAsyncError reports from then on",
     R"("RemoteError")"},
    {"after", Shape::kDuration, {}, {}, "how long after the call", R"("5s")"},
};
constexpr ParameterRow kDelayParameters[] = {
    {"delay", Shape::kDuration, {}, {}, "how long", R"("200ms")"},
    {"on", Shape::kWord, kSideWords, "stream", "GPU work waits, or the caller does", R"("host")"},
    {"jitter",
     Shape::kDuration,
     {},
     {},
     "this much more or less, drawn from the seed",
     R"("50ms")"},
    {"distribution", Shape::kWord, kSpreadWords, "uniform", "how the jitter is drawn",
     R"("normal")"},
};
constexpr ParameterRow kHangParameters[] = {
    {"hang",
     Shape::kDurationOrTrue,
     {},
     {},
     "for how long; true: until abort, destroy or release",
     "true"},
    {"on", Shape::kWord, kSideWords, "stream", "GPU work hangs, or the caller does", R"("host")"},
};
constexpr ParameterRow kSkipParameters[] = {
    {"skip", Shape::kTrue, {}, {}, "success is reported, nothing is done", "true"},
};
constexpr ParameterRow kMismatchParameters[] = {
    {"mismatch", Shape::kWord, kMismatchWords, {}, "which argument differs", R"("count")"},
    {"to", Shape::kReplacement, {}, {}, "what is passed instead", "17"},
};
constexpr ParameterRow kCorruptParameters[] = {
    {"corrupt", Shape::kWord, kCorruptWords, {}, "how elements are changed", R"("bit-flip")"},
    {"at", Shape::kWord, kPlaceWords, "before", "the input, or the output", R"("after")"},
    {"elements",
     Shape::kWhole,
     {},
     {},
     "how many, at places drawn from the seed; 1 if left out",
     "3"},
    {"by", Shape::kFactor, {}, {}, "the factor of \"scale\"", "1.5"},
};
constexpr ParameterRow kCrashParameters[] = {
    {"crash",
     Shape::kWordOrWhole,
     kCrashWords,
     {},
     "a signal, \"abort\", or an exit code",
     R"("SIGKILL")"},
    {"at", Shape::kWord, kPlaceWords, "before", "before the real call or after it", R"("after")"},
};
constexpr ParameterRow kLinkParameters[] = {
    {"link", Shape::kWord, kLinkWords, {}, "what happens to the connection", R"("cut")"},
    {"peer", Shape::kNumbers, {}, {}, "to which ranks; all if left out", "1"},
    {"by", Shape::kDuration, {}, {}, "how long \"delay\" holds a message", R"("5ms")"},
    {"rate", Shape::kBytes, {}, {}, "what \"throttle\" lets pass each second", R"("100MiB")"},
    {"for",
     Shape::kDuration,
     {},
     {},
     "for how long from the call on; until `sabot ctl release` or the communicator's end if left "
     "out",
     R"("10s")"},
};
constexpr ParameterRow kExhaustParameters[] = {
    {"exhaust", Shape::kWord, kExhaustWords, {}, "what fails", R"("registration")"},
};

constexpr std::array<ActionRow, 10> kActionRows{{
    {ActionKind::kError, "error", "the call returns an error code", kErrorParameters},
    {ActionKind::kAsyncError, "async_error",
     "the call succeeds; the communicator reports an error later", kAsyncErrorParameters},
    {ActionKind::kDelay, "delay", "the call, or its GPU work, takes longer", kDelayParameters},
    {ActionKind::kHang, "hang", "the call, or its GPU work, does not end", kHangParameters},
    {ActionKind::kSkip, "skip", "this rank silently does not take part", kSkipParameters},
    {ActionKind::kMismatch, "mismatch", "this rank calls with another argument",
     kMismatchParameters},
    {ActionKind::kCorrupt, "corrupt", "this rank's data is changed", kCorruptParameters},
    {ActionKind::kCrash, "crash", "the process ends", kCrashParameters},
    {ActionKind::kLink, "link", "the network below fails", kLinkParameters},
    {ActionKind::kExhaust, "exhaust", "a resource runs out", kExhaustParameters},
}};

constexpr std::array<OutcomeRow, kOutcomeCount> kOutcomeRows{{
    {Outcome::kCompletes, "completes", "the job ends as if nothing had happened"},
    {Outcome::kRecovers, "recovers", "the job notices, restarts or repairs itself, and completes"},
    {Outcome::kFailsCleanly, "fails-cleanly", "every rank ends with an error, none hangs"},
    {Outcome::kHangs, "hangs", "the job does not end and has to be ended"},
    {Outcome::kDiesDirty, "dies-dirty",
     "a process dies of a signal that no fault sent, or something is left behind"},
    {Outcome::kWrongResult, "wrong-result",
     "the job completes, but its result is not that of the baseline"},
}};

}  // namespace

std::span<const KeyRow> scenario_rows() { return kScenarioRows; }
std::span<const KeyRow> fault_rows() { return kFaultRows; }
std::span<const KeyRow> trigger_rows() { return kTriggerRows; }
std::span<const KeyRow> expect_rows() { return kExpectRows; }
std::span<const ActionRow> action_rows() { return kActionRows; }
std::span<const OutcomeRow> outcome_rows() { return kOutcomeRows; }

std::string_view expected_of(std::span<const KeyRow> rows, std::string_view key) {
  return std::find_if(rows.begin(), rows.end(), [key](const KeyRow& row) { return row.key == key; })
      ->expected;
}

const KeyRow& row_of(Condition condition) { return kTriggerRows[index_of(condition)]; }

const ActionRow& row_of(ActionKind kind) { return kActionRows[static_cast<std::size_t>(kind)]; }

const ActionRow* find_action(std::string_view word) {
  for (const ActionRow& row : kActionRows)
    if (row.word == word) return &row;
  return nullptr;
}

const ParameterRow* find_parameter(const ActionRow& action, std::string_view key) {
  for (const ParameterRow& row : action.parameters)
    if (row.key == key) return &row;
  return nullptr;
}

std::string_view expected_text(Shape shape) {
  switch (shape) {
    case Shape::kResult: return R"(an error code such as "SystemError")";
    case Shape::kDuration: return kDurationText;
    case Shape::kDurationOrTrue: return R"(a duration such as "30s", or true for no limit)";
    case Shape::kTrue: return "true";
    case Shape::kWord: return "a word";
    case Shape::kWordOrWhole: return "a word or an exit code from 0 to 255";
    case Shape::kWhole: return "a whole number from 1";
    case Shape::kFactor: return "a number";
    case Shape::kNumbers: return kNumbersText;
    case Shape::kBytes: return R"(a size such as "100MiB")";
    case Shape::kReplacement: return "a number or a name";
  }
  return "";
}

}  // namespace sabot::scenario::read
