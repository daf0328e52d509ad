// From a tally to a sentence: the furthest stage that any call reached decides what is said.
#include "scenario/explain.hpp"

#include <algorithm>
#include <vector>

#include "abi/names.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "scenario/names.hpp"
#include "scenario/print.hpp"
#include "scenario/read/grammar.hpp"

namespace sabot::scenario {
namespace {

constexpr std::size_t kCalledMax = 8;  // functions named in one message

std::string counted(std::uint64_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string bit_names(std::uint64_t bits, std::string_view (*name)(unsigned)) {
  std::vector<std::string_view> words;
  for (unsigned bit = 0; bit < 32; ++bit)
    if ((bits >> bit & 1U) != 0 && !name(bit).empty()) words.push_back(name(bit));
  return join(words, ", ");
}

std::string_view datatype_name_of(unsigned bit) {
  return abi::datatype_name(static_cast<int>(bit));
}
std::string_view redop_name_of(unsigned bit) {
  return bit <= kRedopCreatedBit ? redop_bit_name(bit) : std::string_view();
}

// What the calls had instead; "" if that cannot be told.
std::string seen_text(Condition condition, const FaultTally& tally) {
  const std::size_t i = index_of(condition);
  const std::uint64_t high = tally.seen_high[i];
  if (condition == Condition::kDatatype) return bit_names(high, datatype_name_of);
  if (condition == Condition::kRedop) return bit_names(high, redop_name_of);
  if (tally.seen_low_inverted[i] == 0) return "";
  const std::uint64_t low = ~tally.seen_low_inverted[i];
  if (condition == Condition::kCaptured) return low == 0 ? "false" : "true";
  const auto print = [condition](std::uint64_t value) {
    if (condition == Condition::kBytes) return format_bytes(value);
    const bool is_time = condition == Condition::kAfter || condition == Condition::kAfterFirstCall;
    return is_time ? format_duration_ns(value) : std::to_string(value);
  };
  const std::string text = low == high ? print(low) : print(low) + " to " + print(high);
  return condition == Condition::kComm ? "comms of " + text + " ranks" : text;
}

std::string wanted_text(const Fault& fault, Condition condition, const FaultTally& tally) {
  std::string text =
      std::string(read::key_of(condition)) + " (wanted " + condition_text(fault.when, condition);
  const std::string seen = seen_text(condition, tally);
  if (!seen.empty()) text += ", seen " + seen;
  return text + ")";
}

std::string explain_no_call(const Fault& fault, std::span<const abi::FunctionId> called) {
  std::string text = "no call of " + to_string(fault.when.call) + " was made";
  std::vector<std::string_view> names;
  for (const abi::FunctionId function : called)
    if (names.size() < kCalledMax) names.push_back(abi::info(function).name);
  if (names.empty()) return text;
  return text + "; the job called " + join(names, ", ") + (called.size() > kCalledMax ? " …" : "");
}

std::string explain_no_match(const Fault& fault, const FaultTally& tally) {
  const auto* best = std::max_element(std::begin(tally.only_failed), std::end(tally.only_failed));
  if (*best > 0) {
    const auto condition = static_cast<Condition>(best - std::begin(tally.only_failed));
    if (condition == Condition::kSwitch) {
      const std::string& name = fault.when.switch_name;
      return counted(*best, "call") + " matched, but the switch \"" + name +
             "\" was off; `sabot ctl RUN arm " + name + "` turns it on";
    }
    return "closest: " + counted(*best, "call") + " matched everything but " +
           wanted_text(fault, condition, tally);
  }
  const std::uint32_t failed = unpack_distance(tally.closest_inverted);
  std::string text = "closest of " + counted(tally.calls, "call") + ": one that failed ";
  bool is_first = true;
  for (std::size_t i = 0; i < kConditionCount; ++i) {
    const auto condition = static_cast<Condition>(i);
    if ((failed & bit_of(condition)) == 0) continue;
    text += (is_first ? "" : " and ") + wanted_text(fault, condition, tally);
    is_first = false;
  }
  return text;
}

std::string explain_not_counted(const Fault& fault, const FaultTally& tally) {
  std::string text = counted(tally.matched, "call") + " matched, at most " +
                     std::to_string(tally.match_max) + " on one rank, but ";
  std::vector<std::string> wanted;
  for (const Condition condition : {Condition::kNth, Condition::kRange, Condition::kEvery}) {
    const std::string value = condition_text(fault.when, condition);
    if (!value.empty()) wanted.push_back(std::string(read::key_of(condition)) + " = " + value);
  }
  const std::vector<std::string_view> views(wanted.begin(), wanted.end());
  return text + join(views, " and ") + " was not reached";
}

}  // namespace

std::string explain_unfired(const Fault& fault, const FaultTally& tally,
                            std::span<const abi::FunctionId> called) {
  std::string why;
  if (tally.wanted > 0) {
    why =
        "it wanted to fire " + counted(tally.wanted, "time") +
        (fault.budget == 0 ? ", but was not allowed to"
                           : ", but its budget of " + std::to_string(fault.budget) + " was spent");
  } else if (tally.counted > 0) {
    why = counted(tally.counted, "call") + " matched, but none was drawn with probability " +
          condition_text(fault.when, Condition::kProbability);
  } else if (tally.matched > 0) {
    why = explain_not_counted(fault, tally);
  } else if (tally.unarmed > 0) {
    why = counted(tally.unarmed, "call") + " matched, but it was not armed; `sabot ctl RUN arm " +
          fault.name + "` arms it";
  } else if (tally.ranks_dropped > 0) {
    why = "too many ranks in one process; " + counted(tally.ranks_dropped, "call") +
          " were not considered";
  } else if (tally.calls > 0) {
    why = explain_no_match(fault, tally);
  } else {
    why = explain_no_call(fault, called);
  }
  return "fault \"" + fault.name + "\" did not fire: " + why;
}

}  // namespace sabot::scenario
