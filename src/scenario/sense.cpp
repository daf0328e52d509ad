// One case per action, on what the API spec says of a function.
#include "scenario/sense.hpp"

#include "abi/names.hpp"
#include "scenario/names.hpp"

namespace sabot::scenario {
namespace {

using abi::FunctionId;
using abi::Kind;

bool transfers(Kind kind) {
  return kind == Kind::collective || kind == Kind::p2p || kind == Kind::one_sided;
}
bool ends_comm(Kind kind) {
  return kind == Kind::finalize || kind == Kind::destroy || kind == Kind::abort ||
         kind == Kind::revoke;
}
bool creates_comm(Kind kind) { return kind == Kind::init || kind == Kind::derive; }

std::string_view objection_to_skip(Kind kind) {
  if (transfers(kind) || ends_comm(kind)) return "";
  if (kind == Kind::group)
    return "opens or closes a group, which would stay unbalanced; skip the calls in it";
  return "makes or tells something that its caller goes on to use, so it cannot be skipped";
}

std::string_view objection_to_mismatch(const Act& act, FunctionId function) {
  const FunctionTraits traits = traits_of(function);
  const Kind kind = abi::info(function).kind;
  if (kind == Kind::one_sided) return "is one-sided: its peer expects nothing that could differ";
  if (kind != Kind::collective && kind != Kind::p2p)
    return "exchanges nothing with peers, so it cannot disagree with them";
  switch (act.mismatch) {
    case MismatchKind::kCount: return traits.has_count ? "" : "has no count that could differ";
    case MismatchKind::kDatatype:
      return traits.has_datatype ? "" : "has no data type that could differ";
    case MismatchKind::kRedop: return traits.has_redop ? "" : "has no reduction that could differ";
    case MismatchKind::kRoot: return traits.has_root ? "" : "has no root that could differ";
    case MismatchKind::kCall:
      if (kind != Kind::collective) return "is no collective, so no other can take its place";
      if (act.to_function == function) return "would be called instead of itself";
      return "";
  }
  return "";
}

std::string_view objection_to_corrupt(const Act& act, FunctionId function) {
  const FunctionTraits traits = traits_of(function);
  const bool is_output = act.moment == Moment::kAfter;
  if (traits.has_count && (is_output ? traits.has_output : traits.has_input)) return "";
  if (is_output) return "has no output that could be corrupted";
  if (traits.has_count && traits.has_output)
    return "has no input that could be corrupted; write at = \"after\" for its output";
  return "has no input that could be corrupted";
}

std::string_view objection_to_exhaust(const Act& act, FunctionId function) {
  const Kind kind = abi::info(function).kind;
  if (act.exhaust == ExhaustKind::kRegistration) {
    const bool registers =
        function == FunctionId::kCommRegister || function == FunctionId::kCommWindowRegister;
    return registers ? "" : "registers nothing";
  }
  const bool allocates = creates_comm(kind) || transfers(kind) || function == FunctionId::kMemAlloc;
  return allocates ? "" : "allocates nothing";
}

}  // namespace

std::string_view objection_to(const Act& act, FunctionId function) {
  const FunctionTraits traits = traits_of(function);
  const Kind kind = abi::info(function).kind;
  if (!traits.returns_result)
    return act.kind == ActionKind::kError
               ? "returns no result code, so it cannot be made to return an error"
               : "returns no result code; only calls that do can be disturbed";
  switch (act.kind) {
    case ActionKind::kError:
    case ActionKind::kDelay:
    case ActionKind::kHang:
    case ActionKind::kCrash: return "";
    case ActionKind::kAsyncError:
      if (ends_comm(kind)) return "ends the communicator, which then reports nothing";
      return traits.has_comm ? "" : "has no communicator that could report an error later";
    case ActionKind::kSkip: return objection_to_skip(kind);
    case ActionKind::kMismatch: return objection_to_mismatch(act, function);
    case ActionKind::kCorrupt: return objection_to_corrupt(act, function);
    case ActionKind::kLink: return traits.has_comm ? "" : "has no communicator with links";
    case ActionKind::kExhaust: return objection_to_exhaust(act, function);
  }
  return "";
}

}  // namespace sabot::scenario
