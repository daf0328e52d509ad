// The table of knobs: what each environment variable is called, means, accepts and defaults to.
//
// A knob is a row of knobs.def. The enumeration, the table, the type that Snapshot::get returns and
// the reference page are expansions of that one list, so that none of them can forget a row. The
// table is constant data: reading it costs nothing before the first use of the library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sabot::config {

enum class KnobId : std::uint8_t {
#define SABOT_KNOB(id, ...) id,
#define SABOT_FOREIGN(id, ...) id,
#include "config/knobs.def"
#undef SABOT_KNOB
#undef SABOT_FOREIGN
};

enum class Kind : std::uint8_t { kSwitch, kInteger, kDuration, kChoice, kText, kPath };

// Where a value came from; the order is the precedence, the last one wins.
enum class Source : std::uint8_t { kDefault, kFile, kEnvironment, kCommandLine };
std::string_view name_of(Source source);

// Which sources may set a knob, besides its default.
using SourceSet = std::uint8_t;
inline constexpr SourceSet kFile = 1;
inline constexpr SourceSet kEnvironment = 2;
inline constexpr SourceSet kCommandLine = 4;

enum class EngineChoice : std::uint8_t { kAuto, kReal, kHost };
enum class LogChoice : std::uint8_t { kOff, kErrors, kCalls, kAll };

// The type column of knobs.def: how a row is parsed and what Snapshot::get returns for it.
template <Kind kKindOf, typename T>
struct KnobType {
  static constexpr Kind kKind = kKindOf;
  using Value = T;
};
namespace type {
using Switch = KnobType<Kind::kSwitch, bool>;
using Integer = KnobType<Kind::kInteger, std::uint64_t>;
using Duration = KnobType<Kind::kDuration, std::uint64_t>;  // nanoseconds
using Text = KnobType<Kind::kText, std::string_view>;
using Path = KnobType<Kind::kPath, std::string_view>;
using EngineChoice = KnobType<Kind::kChoice, config::EngineChoice>;
using LogChoice = KnobType<Kind::kChoice, config::LogChoice>;
}  // namespace type

struct Knob {
  KnobId id;
  Kind kind;
  std::string_view name;
  std::string_view fallback;  // "" = not set unless somebody sets it
  std::string_view unit;      // for a choice: its words, separated by '|'
  SourceSet sources;
  std::string_view option;  // of the command line, "" = none
  std::string_view since;
  std::string_view example;
  std::string_view description;
  bool foreign;  // somebody else's variable that we honour
};

inline constexpr auto kKnobs = std::to_array<Knob>({
#define SABOT_KNOB(id, kind, name, fallback, unit, from, option, since, example, text) \
  {KnobId::id, type::kind::kKind, name, fallback, unit, from, option, since, example, text, false},
#define SABOT_FOREIGN(id, type_name, name, since, text) \
  {KnobId::id, type::type_name::kKind, name, "", "", kEnvironment, "", since, "", text, true},
#include "config/knobs.def"
#undef SABOT_KNOB
#undef SABOT_FOREIGN
});
inline constexpr std::size_t kKnobCount = kKnobs.size();

constexpr const Knob& knob(KnobId id) { return kKnobs[static_cast<std::size_t>(id)]; }

template <KnobId kId>
struct TypeOf;
#define SABOT_KNOB(id, type_name, ...) \
  template <>                          \
  struct TypeOf<KnobId::id> : type::type_name {};
#define SABOT_FOREIGN(id, type_name, ...) \
  template <>                             \
  struct TypeOf<KnobId::id> : type::type_name {};
#include "config/knobs.def"
#undef SABOT_KNOB
#undef SABOT_FOREIGN

// The reference page, made from the table: one heading a knob, sorted as in the table.
std::string reference_markdown();

}  // namespace sabot::config
