// Formats schedules; plain strings, since this is not on any fast path.
#include "schedule/print.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "schedule/algorithms.hpp"

namespace sabot::schedule {
namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string range(Buffer buffer, std::uint64_t begin, std::uint64_t length) {
  const char* name = buffer == Buffer::kInput ? "input" : "output";
  return name + ("[" + number(begin)) + ".." + number(begin + length) + ")";
}

std::string ranks(RankMask mask) {
  std::string text;
  for (int r = 0; r < kRanksMax; ++r)
    if ((mask & bit(r)) != 0) text += (text.empty() ? "" : " ") + std::to_string(r);
  return text;
}

std::string area(const Step& step, Buffer buffer, std::uint64_t offset) {
  if (step.parts == 1) return range(buffer, offset, step.length(0));
  if (step.stride == step.part) return range(buffer, offset, step.extent);
  return range(buffer, offset, step.part) + " and " + number(step.parts - 1) + " more every " +
         number(step.stride);
}

std::string of_message(const Step& step) {
  std::string text = "message " + number(step.message) + " of " + ranks(step.sources);
  if (step.message_offset != 0) text += " from " + number(step.message_offset);
  return text;
}

std::string as_message(std::uint64_t message, RankMask readers) {
  return " as message " + number(message) + " for " + ranks(readers);
}

std::string left(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}
std::string right(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

// Verb and object apart, so that the table can align them.
std::string object_of(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kPut: {
      std::string text = area(step, step.from, step.from_offset);
      if (step.skip >= 0) text += " but part " + std::to_string(step.skip);
      return text + as_message(step.message, step.readers);
    }
    case Step::Kind::kGet: return of_message(step) + " to " + area(step, step.to, step.to_offset);
    case Step::Kind::kReduce: {
      std::string text =
          range(step.from, step.from_offset, step.length(0)) + " with " + of_message(step);
      if (step.to != Buffer::kNone) text += " to " + range(step.to, step.to_offset, step.length(0));
      if (step.readers != 0) text += as_message(step.put_message, step.readers);
      return text;
    }
    case Step::Kind::kCopy:
      return range(step.from, step.from_offset, step.length(0)) + " to " +
             range(step.to, step.to_offset, step.length(0));
  }
  return "";
}

const char* verb_of(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kPut: return "put";
    case Step::Kind::kGet: return "get";
    case Step::Kind::kReduce: return "reduce";
    case Step::Kind::kCopy: return "copy";
  }
  return "";
}

// A reduction names its own contribution by the range, not by its own rank number.
Step without_self(Step step, int rank) {
  if (step.kind == Step::Kind::kReduce) step.sources &= ~bit(rank);
  return step;
}

}  // namespace

std::string describe(const Step& step) { return verb_of(step) + (" " + object_of(step)); }

std::string describe(const Request& request) {
  const std::uint64_t bytes = request.count * bytes_of(request.type);
  std::string text(name_of(request.collective));
  text += " of " + number(request.count) + " " + std::string(name_of(request.type)) + " (" +
          format_bytes(bytes) + ") on " + std::to_string(request.world) + " ranks";
  if (has_root(request.collective)) text += ", root " + std::to_string(request.root);
  return text;
}

std::string describe(const Plan& plan, const Request& request) {
  const std::uint64_t messages = Program(request, plan).message_count();
  const std::uint64_t chunks = plan.chunk == 0 ? 0 : (request.count + plan.chunk - 1) / plan.chunk;
  return std::string(name_of(plan.algorithm)) + ": " + number(chunks) +
         (chunks == 1 ? " chunk of " : " chunks of ") +
         number(std::min(plan.chunk, request.count)) + " elements, " + number(messages) +
         (messages == 1 ? " message" : " messages") + " a rank";
}

std::string print(const Request& request, const Plan& plan, std::uint64_t steps_max) {
  std::string text =
      describe(request) + "\n" + describe(plan, request) + "\nrank  step  does    what\n";
  for (int r = 0; r < request.world; ++r) {
    Request mine = request;
    mine.rank = r;
    Program program(mine, plan);
    Step step;
    std::uint64_t steps = 0;
    while (program.next(step)) {
      if (++steps > steps_max) continue;
      const Step shown = without_self(step, r);
      text += right(std::to_string(r), 4) + right(number(steps), 6) + "  " +
              left(verb_of(shown), 8) + object_of(shown) + "\n";
    }
    if (steps > steps_max)
      text += right(std::to_string(r), 4) + "   ...  " + number(steps - steps_max) + " more\n";
  }
  return text;
}

}  // namespace sabot::schedule
