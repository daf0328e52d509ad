// What a scenario can call a call: functions, groups of functions, reductions; and what a call
// carries.
//
// A thin view on the generated tables of abi that adds groups ("any collective", "init"), one bit
// for the reductions that the application creates, and the traits by which the parser knows that a
// condition on, say, the root can never hold for AllReduce.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "abi/function_id.hpp"
#include "scenario/scenario.hpp"

namespace sabot::scenario {

inline constexpr int kResultSuccess = 0;
inline constexpr int kResultInProgress = 7;

struct FunctionTraits {
  bool has_comm;   // or creates one: rank and comm size are known
  bool has_count;  // count and bytes
  bool has_datatype;
  bool has_redop;
  bool has_root;
  bool has_peer;
  bool has_stream;
  bool has_input;       // a buffer that is read …
  bool has_output;      // … or written
  bool returns_result;  // an ncclResult_t, so that it can be made to fail
};
FunctionTraits traits_of(abi::FunctionId function);

struct CallGroupRow {
  CallGroup group;
  std::string_view word;
  std::uint32_t kinds;  // bit i: abi::Kind of value i
  std::string_view meaning;
};
std::span<const CallGroupRow> call_group_rows();

// A function with or without the prefix "nccl", or the word of a group.
std::optional<CallTerm> find_call_term(std::string_view word);
std::string_view word_of(const CallTerm& term);
// Every group and every function, for "did you mean".
std::span<const std::string_view> call_words();

bool matches(const CallTerm& term, abi::FunctionId function);
bool matches(std::span<const CallTerm> terms, abi::FunctionId function);

// "AllReduce|AllGather", "any collective".
std::string to_string(std::span<const CallTerm> terms);

// The bit of Trigger::redops: a built-in reduction, or "user" for any that the application created.
std::optional<unsigned> find_redop_bit(std::string_view name);
std::string_view redop_bit_name(unsigned bit);
std::span<const std::string_view> redop_words();
unsigned redop_bit(int redop);

}  // namespace sabot::scenario
