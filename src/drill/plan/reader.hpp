// Reading one table of a plan by key, and the parts of a plan that are scenarios.
//
// A TableReader joins a table with the rows of its keys, so that every message names the key, its
// line and what was expected, and "did you mean" knows all keys. Absent keys read as nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "drill/plan/plan.hpp"
#include "scenario/read/diagnostics.hpp"
#include "scenario/read/field.hpp"
#include "scenario/read/readers.hpp"
#include "scenario/read/value.hpp"

namespace sabot::drill {

inline constexpr std::uint64_t kWholeMax = INT64_MAX;
inline constexpr std::size_t kWordsMax = 1024;
inline constexpr std::size_t kWordBytesMax = 4096;

struct KeyText {
  std::string_view key;
  std::string_view expected;  // completes "expected …"
};

class TableReader {
 public:
  // prefix: "generate."
  TableReader(const scenario::read::Value& table, std::string prefix, std::span<const KeyText> keys,
              scenario::read::Diagnostics& diagnostics)
      : table_(table), prefix_(std::move(prefix)), keys_(keys), diagnostics_(diagnostics) {}

  const scenario::read::Member* find(std::string_view key) const { return table_.find(key); }
  void refuse_unknown() const;
  void missing(std::string_view key) const;
  // Precondition of these two: the key is there.
  void refuse(std::string_view key, const std::string& problem) const;
  void refuse_type(std::string_view key) const;

  std::optional<std::string> text(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::uint64_t> whole(std::string_view key, std::uint64_t low,
                                     std::uint64_t high) const;
  std::optional<std::uint64_t> duration_ns(std::string_view key) const;  // more than nothing
  std::optional<scenario::NumberSet> numbers(std::string_view key) const;
  // The words of a command: a list of texts, the first one not empty.
  std::optional<std::vector<std::string>> words(std::string_view key) const;
  // A list of texts, or one text.
  std::optional<std::vector<std::string>> texts(std::string_view key) const;

 private:
  std::optional<scenario::read::Field> field(std::string_view key) const;
  std::string_view expected(std::string_view key) const;

  const scenario::read::Value& table_;
  std::string prefix_;
  std::span<const KeyText> keys_;
  scenario::read::Diagnostics& diagnostics_;
};

// Reads [[scenario]]: a file by name, or a scenario as it stands in the plan. False after a
// mistake.
bool build_scenario_entry(const scenario::read::Value& table, Listed& listed,
                          scenario::read::Diagnostics& diagnostics);
// Reads an expectation that belongs to no fault in particular.
std::optional<scenario::Expectation> build_expectation(const scenario::read::Member& expect,
                                                       scenario::read::Diagnostics& diagnostics);

// "" if NCCL has this function.
std::string unknown_function_text(const std::string& name);
// Whether an action can be read at all: the error is that of the line reader.
Status check_action_text(const std::string& action);

}  // namespace sabot::drill
