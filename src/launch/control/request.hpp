// What `sabot ctl` asks of a run and what it is answered: one line of JSON each way.
//
//   {"do":"fire","name":"nic-dies","rank":3}\n      {"ok":true,"text":"fault \"nic-dies\" …"}\n
//   {"do":"status"}\n                               {"ok":true,"text":"","status":{…}}\n
//   {"do":"arm","name":"nic-deis"}\n                {"ok":false,"text":"no fault or switch …"}\n
//
// A request is bounded and strict: an unknown key, a key of another verb or a wrong type is
// answered with a sentence, never guessed at. `add` carries the text of the scenario, so that it is
// read with the rights and in the folder of whoever asks, a pipe included.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "run/read/json_value.hpp"

namespace sabot::launch::control {

inline constexpr std::size_t kRequestBytesMax = 2U << 20;
inline constexpr std::size_t kAnswerBytesMax = 16U << 20;
inline constexpr std::int32_t kRankMax = 0x7FFFFF00;

enum class Verb : std::uint8_t { kStatus, kArm, kDisarm, kFire, kRelease, kAdd };

struct VerbRow {
  Verb verb;
  std::string_view word;
  bool takes_name;
  bool needs_name;
};
std::span<const VerbRow> verb_rows();
const VerbRow& row_of(Verb verb);
std::optional<Verb> verb_named(std::string_view word);

struct Request {
  Verb verb = Verb::kStatus;
  std::string name{};                  // of a fault or a switch
  std::optional<std::int32_t> rank{};  // fire: this rank only
  std::string file{};                  // add: the name of the scenario's file, for messages
  std::string text{};                  // add: its contents
  bool operator==(const Request&) const = default;
};

// A text of a request in a message: cut where it is long, without control characters.
std::string printable(std::string_view text, std::size_t bytes_max);
std::string quoted(std::string_view word);

// The line is without its newline.
Result<Request> parse_request(std::string_view line);
std::string to_line(const Request& request);

struct Answer {
  bool is_ok = false;
  std::string text{};    // a sentence, of several lines where a scenario has several mistakes
  std::string status{};  // JSON, for the verb status
};
std::string to_line(const Answer& answer);
// The members "ok" and "text"; the rest stays in the value.
Result<run::JsonValue> parse_answer(std::string_view line);

}  // namespace sabot::launch::control
