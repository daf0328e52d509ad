// The two readers: from text to a tree of values. They know syntax and places, not keys.
//
// Both yield the root table of a scenario file; a line is read as if its faults stood in a file:
//
//   line   = item *( ";" item )
//   item   = "seed" "=" value
//          | [ name ":" ] call *( "|" call ) [ "[" condition *( "," condition ) "]" ] "=" action
//   condition = key op value            op: = != >= <= > <      "budget" goes to the fault itself
//   action = word [ "(" [ value ] *( "," key "=" value ) ")" ]
//   value  = bare text | "text" | 'text' | "[" value *( "," value ) "]"
//
// A key that is compared several times means all of it: AllReduce[bytes>=4KiB,bytes<1MiB]=…
#pragma once

#include <optional>
#include <string_view>

#include "scenario/read/diagnostics.hpp"
#include "scenario/read/value.hpp"

namespace sabot::scenario::read {

// Nothing if the syntax is wrong; then diagnostics has one entry that says where.
std::optional<Value> read_toml(std::string_view text, Diagnostics& diagnostics);
std::optional<Value> read_line(std::string_view text, Diagnostics& diagnostics);

}  // namespace sabot::scenario::read
