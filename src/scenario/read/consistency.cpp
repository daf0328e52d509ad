// Refuses triggers whose conditions are each well formed but can never hold together.
//
// A fault that cannot fire makes a test that cannot fail; it is better told before the job starts
// than read off a journal without lines. Bounds suffice: what slips through is explained after the
// run.
#include <algorithm>
#include <array>

#include "abi/names.hpp"
#include "base/text.hpp"
#include "scenario/names.hpp"
#include "scenario/read/builder.hpp"
#include "scenario/read/grammar.hpp"
#include "scenario/sense.hpp"

namespace sabot::scenario::read {
namespace {

struct Requirement {
  Condition condition;
  bool FunctionTraits::*has;
  std::string_view noun;  // "AllReduce has no …"
};
constexpr std::array<Requirement, 9> kRequirements{{
    {Condition::kRank, &FunctionTraits::has_comm, "rank; world_rank is known for every call"},
    {Condition::kComm, &FunctionTraits::has_comm, "communicator"},
    {Condition::kBytes, &FunctionTraits::has_count, "count, so its size is unknown"},
    {Condition::kCount, &FunctionTraits::has_count, "count"},
    {Condition::kDatatype, &FunctionTraits::has_datatype, "data type"},
    {Condition::kRedop, &FunctionTraits::has_redop, "reduction"},
    {Condition::kRoot, &FunctionTraits::has_root, "root"},
    {Condition::kPeer, &FunctionTraits::has_peer, "peer"},
    {Condition::kCaptured, &FunctionTraits::has_stream, "stream"},
}};

std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kNumberMax : product;
}

class ConsistencyCheck {
 public:
  ConsistencyCheck(const BuiltFault& built, std::uint64_t ranks, const Prefixes& prefixes,
                   Diagnostics& diagnostics)
      : action_(built.fault.action),
        act_(act_of(built.fault.action)),
        trigger_(built.fault.when),
        conditions_(conditions_of(built.fault.when)),
        ranks_(ranks),
        when_(built.when),
        action_table_(built.action),
        prefixes_(prefixes),
        diagnostics_(diagnostics),
        calls_(to_string(built.fault.when.call)) {
    for (const abi::FunctionInfo& info : abi::all_functions())
      if (matches(trigger_.call, info.id)) named_.push_back(info.id);
    for (const abi::FunctionId function : named_)
      if (makes_sense(act_, function)) functions_.push_back(traits_of(function));
  }

  void run() {
    if (functions_.empty()) {
      refuse(Condition::kCall,
             quoted(calls_) + " " + std::string(objection_to(act_, named_.front())));
      return;
    }
    check_traits();
    check_action();
    check_counting();
    check_sizes();
    check_ranks();
    if (trigger_.probability && *trigger_.probability == 0)
      diagnostics_.warn(place_of(Condition::kProbability), path_of(Condition::kProbability),
                        "a probability of 0 never fires");
  }

 private:
  bool has(Condition condition) const { return (conditions_ & bit_of(condition)) != 0; }

  void check_traits() {
    bool is_each_possible = true;
    for (const Requirement& need : kRequirements) {
      if (!has(need.condition)) continue;
      const bool is_possible =
          std::any_of(functions_.begin(), functions_.end(),
                      [&need](const FunctionTraits& traits) { return traits.*need.has; });
      if (!is_possible)
        refuse(need.condition, quoted(calls_) + " has no " + std::string(need.noun));
      is_each_possible = is_each_possible && is_possible;
    }
    const auto meets_all = [this](const FunctionTraits& traits) {
      return std::all_of(kRequirements.begin(), kRequirements.end(), [&](const Requirement& need) {
        return !has(need.condition) || traits.*need.has;
      });
    };
    if (is_each_possible && std::none_of(functions_.begin(), functions_.end(), meets_all))
      refuse(Condition::kCall,
             "no function of " + quoted(calls_) + " has all that the conditions ask for");
  }

  void check_action() {
    const Member* side = action_table_.find("on");
    const bool has_stream =
        std::any_of(functions_.begin(), functions_.end(),
                    [](const FunctionTraits& traits) { return traits.has_stream; });
    if (side != nullptr && side->value.text == "stream" && !has_stream)
      refuse_argument("on", quoted(calls_) +
                                " puts nothing on a stream, so only the caller can be held; leave "
                                "'on' out, or write \"host\"");
    if (act_.kind == ActionKind::kMismatch) check_difference();
    const Argument* peers = action_.find("peer");
    if (peers == nullptr) return;
    const auto& set = std::get<NumberSet>(peers->value);
    if (ranks_ != 0 && set.low() >= ranks_)
      refuse_argument("peer",
                      quoted(set.to_string(NumberStyle::kPlain)) +
                          " cannot exist: the scenario has ranks = " + std::to_string(ranks_) +
                          ", that is 0 to " + std::to_string(ranks_ - 1));
    else if (set.single() && trigger_.rank.single() == set.single())
      refuse_argument("peer", "a rank has no link to itself");
  }

  // What is passed instead must not be what the trigger demands.
  void check_difference() {
    const auto to = static_cast<std::uint64_t>(act_.to_number);
    bool is_same = false;
    switch (act_.mismatch) {
      case MismatchKind::kCount: is_same = trigger_.count.single() == to; break;
      case MismatchKind::kRoot: is_same = trigger_.root.single() == to; break;
      case MismatchKind::kDatatype: is_same = trigger_.datatypes == 1U << to; break;
      case MismatchKind::kRedop: is_same = trigger_.redops == 1U << to; break;
      case MismatchKind::kCall: break;  // sense.hpp
    }
    if (is_same) refuse_argument("to", "is what the trigger asks for, so nothing would differ");
    const bool is_larger = act_.mismatch == MismatchKind::kCount && has(Condition::kCount) &&
                           to > trigger_.count.high();
    if (is_larger)
      refuse_argument("to",
                      "is larger than any count that the trigger asks for, and the buffers "
                      "hold no more; ask for a smaller one");
    const bool is_no_rank = act_.mismatch == MismatchKind::kRoot && ranks_ != 0 && to >= ranks_;
    if (is_no_rank)
      refuse_argument("to",
                      quoted(std::to_string(to)) + " cannot exist: the scenario has ranks = " +
                          std::to_string(ranks_) + ", that is 0 to " + std::to_string(ranks_ - 1));
  }

  void check_counting() {
    if (has(Condition::kNth) && has(Condition::kEvery))
      refuse(Condition::kEvery, "contradicts 'nth': one call or every n-th, not both");
    if (has(Condition::kNth) && has(Condition::kRange))
      refuse(Condition::kRange, "contradicts 'nth': one call or a range, not both");
    if (!has(Condition::kEvery) || !has(Condition::kRange)) return;
    const std::uint64_t every = *trigger_.every;
    const auto has_multiple = [every](const Interval& interval) {
      const std::uint64_t last = interval.high / every * every;
      return last >= interval.low && last > 0;
    };
    const std::vector<Interval>& intervals = trigger_.range.intervals();
    if (std::none_of(intervals.begin(), intervals.end(), has_multiple))
      refuse(Condition::kEvery, "the range " +
                                    quoted(trigger_.range.to_string(NumberStyle::kPlain)) +
                                    " has no multiple of " + std::to_string(every));
  }

  void check_sizes() {
    std::uint64_t smallest = kNumberMax;
    std::uint64_t largest = 0;
    bool divides = false;
    for (int type = 0; abi::datatype_bytes(type) != 0; ++type) {
      const bool is_meant = trigger_.datatypes == 0 || (trigger_.datatypes >> type & 1U) != 0;
      if (!is_meant) continue;
      const std::uint64_t size = abi::datatype_bytes(type);
      smallest = std::min(smallest, size);
      largest = std::max(largest, size);
      divides = divides || trigger_.bytes.single().value_or(0) % size == 0;
    }
    if (!divides)
      refuse(Condition::kBytes, std::to_string(*trigger_.bytes.single()) +
                                    " bytes are not a whole number of elements of this data type");
    if (!has(Condition::kBytes) || !has(Condition::kCount)) return;
    const bool is_too_small =
        trigger_.bytes.high() < saturating_product(trigger_.count.low(), smallest);
    const bool is_too_large =
        trigger_.bytes.low() > saturating_product(trigger_.count.high(), largest);
    if (is_too_small || is_too_large)
      refuse(Condition::kBytes,
             "contradicts 'count' = " + quoted(trigger_.count.to_string(NumberStyle::kPlain)) +
                 (trigger_.datatypes == 0 ? "" : " and 'datatype'") + ": no element is that " +
                 (is_too_small ? "small" : "large"));
  }

  // The largest comm that the trigger accepts; kNumberMax if it does not say.
  std::uint64_t comm_size_max() const {
    std::uint64_t largest = 0;
    for (const CommTerm& term : trigger_.comm)
      largest =
          term.kind == CommTerm::Kind::kSize ? std::max(largest, term.size.high()) : kNumberMax;
    return trigger_.comm.empty() ? kNumberMax : largest;
  }

  void check_ranks() {
    const std::uint64_t size_max = comm_size_max();
    for (const Condition condition :
         {Condition::kRank, Condition::kRoot, Condition::kPeer, Condition::kWorldRank}) {
      if (!has(condition)) continue;
      const NumberSet& set = condition == Condition::kRank   ? trigger_.rank
                             : condition == Condition::kRoot ? trigger_.root
                             : condition == Condition::kPeer ? trigger_.peer
                                                             : trigger_.world_rank;
      const std::string wanted = quoted(set.to_string(NumberStyle::kPlain));
      if (ranks_ != 0 && set.low() >= ranks_) {
        refuse(condition, wanted +
                              " cannot exist: the scenario has ranks = " + std::to_string(ranks_) +
                              ", that is 0 to " + std::to_string(ranks_ - 1));
      } else if (condition != Condition::kWorldRank && set.low() >= size_max) {
        refuse(condition, wanted + " cannot exist in a comm of at most " +
                              std::to_string(size_max) + " ranks");
      }
    }
    for (const CommTerm& term : trigger_.comm) {
      if (term.kind == CommTerm::Kind::kSize && ranks_ != 0 && term.size.low() > ranks_)
        refuse(Condition::kComm, "no comm has " + quoted(term.size.to_string(NumberStyle::kPlain)) +
                                     " ranks: the scenario has ranks = " + std::to_string(ranks_));
    }
  }

  std::string path_of(Condition condition) const {
    return std::string(prefixes_.when) + std::string(key_of(condition));
  }
  Place place_of(Condition condition) const {
    const Member* member = when_.find(key_of(condition));
    return member == nullptr ? when_.place : member->value.place;
  }
  void refuse(Condition condition, const std::string& problem) {
    diagnostics_.add(place_of(condition), path_of(condition), problem);
  }

  void refuse_argument(std::string_view key, const std::string& problem) {
    diagnostics_.add(action_table_.find(key)->value.place,
                     std::string(prefixes_.action) + std::string(key), problem);
  }

  const Action& action_;
  const Act act_;
  const Trigger& trigger_;
  std::uint32_t conditions_;
  std::uint64_t ranks_;
  const Value& when_;
  const Value& action_table_;
  const Prefixes& prefixes_;
  Diagnostics& diagnostics_;
  std::string calls_;
  std::vector<abi::FunctionId> named_;
  std::vector<FunctionTraits> functions_;  // of those named on which the action makes sense
};

}  // namespace

void check_consistency(const BuiltFault& built, std::uint64_t ranks, const Prefixes& prefixes,
                       Diagnostics& diagnostics) {
  ConsistencyCheck(built, ranks, prefixes, diagnostics).run();
}

}  // namespace sabot::scenario::read
