// Decides which faults of a scenario fire at a call. It never acts: budgets, journal and effects
// belong to the caller.
//
// A call first meets one word of candidates for its function, so that faults on other functions
// cost a load and a branch. The rest is pure arithmetic on the call, the time and one counter per
// trigger, rank and attempt; nothing allocates, locks, prints or asks the system. Conditions are of
// four kinds, and a call passes them in this order:
//
//   1. fixed ones, on the call alone (rank, bytes, attempt …): decided once per class of calls
//      (decide/call_classes.hpp), all of them, so that a fault which never fires can be explained;
//   2. moving ones: after, after_first_call, switch, and whether the fault is armed;
//   3. nth, range, every: on the number of calls that met all of the above, 1-based, per rank and
//      attempt, from where the fault was armed;
//   4. probability: drawn from seed, fault, world rank, attempt, comm, function and the call's
//      number on its comm, so that one call is decided alike in every run, whatever other ranks
//      and threads do.
//
// Thread-safe: enter() may run in any number of threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "abi/call.hpp"
#include "scenario/act.hpp"
#include "scenario/decide/call_classes.hpp"
#include "scenario/decide/match_counters.hpp"
#include "scenario/scenario.hpp"
#include "scenario/tally.hpp"

namespace sabot::scenario {

struct Firing {
  std::uint32_t fault;   // index into Scenario::faults
  std::uint64_t number;  // the how-manieth match of this rank in this attempt
  // For all that is random about the action: the same in every run.
  std::uint64_t bits;
  // It fires only because Controls::fire asks for it: the caller has to claim the request.
  bool is_requested;
};

// What people control while the job runs. Bits of faults are in file order.
struct Controls {
  std::uint64_t switches = 0;  // bit i is on if switch_names()[i] is
  // Read when generation is newer than any seen before; until then Fault::is_armed holds. A fault
  // that is armed counts its calls from there on.
  std::uint64_t armed = 0;
  std::uint64_t generation = 0;
  // These are asked to fire once, at the next call that meets their conditions on the call and
  // their switch, whatever time, nth, range, every and probability say, and even if not armed.
  std::uint64_t fire = 0;
};

// The faults that want to fire, in file order.
class Verdict {
 public:
  Verdict() {}  // NOLINT: leaves the array uninitialised on purpose; most verdicts are empty
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  const Firing* begin() const { return firings_.data(); }
  const Firing* end() const { return firings_.data() + count_; }
  void add(Firing firing) { firings_[count_++] = firing; }

 private:
  std::size_t count_ = 0;
  std::array<Firing, kFaultsMax> firings_;
};

struct Context {
  std::uint64_t start_ns = 0;       // when this process started, on the clock of now_ns
  std::string_view host;            // this machine's name
  std::span<FaultTally> tallies{};  // one per fault, zeroed, outliving the decider; empty: its own
};

class Decider {
 public:
  Decider(Scenario scenario, const Context& context);
  Decider(const Decider&) = delete;
  Decider& operator=(const Decider&) = delete;

  const Scenario& scenario() const { return scenario_; }
  const Fault& fault(std::uint32_t index) const { return scenario_.faults[index]; }

  // Whether enter() has to be called for this function. Costs two loads; where it is false the
  // caller needs no clock and no Call.
  bool is_interested(abi::FunctionId function) const {
    const std::uint64_t candidates = candidates_[static_cast<std::size_t>(function)];
    // relaxed: a fault retired or a first call noted by another thread may be seen a call later
    const std::uint64_t live = live_.load(std::memory_order_relaxed);
    // relaxed: as above
    const std::uint64_t wanted = first_call_wanted_.load(std::memory_order_relaxed);
    return ((candidates & live) | wanted) != 0;
  }

  // now_ns and Call::captured may be left at 0 and false where the decider does not use the
  // conditions that look at them.
  Verdict enter(const abi::Call& call, std::uint64_t now_ns, const Controls& controls = {});
  const std::vector<std::string>& switch_names() const { return switch_names_; }
  // Whether any fault has this condition.
  bool uses(Condition condition) const { return (used_ & bit_of(condition)) != 0; }
  bool uses_clock() const { return uses(Condition::kAfter) || uses(Condition::kAfterFirstCall); }

  // Asks claim(const Firing&) for each firing in file order and keeps those it allows. A call can
  // bear one action that takes its place (replaces_call): the first that is allowed wins, later
  // ones are not asked. What is kept counts as fired.
  template <typename Claim>
  Verdict settle(const Verdict& wanted, Claim&& claim) {
    Verdict kept;
    bool is_replaced = false;
    for (const Firing& firing : wanted) {
      const bool replaces = replaces_call(fault(firing.fault).action.kind);
      if ((replaces && is_replaced) || !claim(firing)) continue;
      is_replaced = is_replaced || replaces;
      count_fired(firing.fault);
      kept.add(firing);
    }
    return kept;
  }

  // The fault is out of budget, in this and every other process: it is not considered any more.
  void retire(std::uint32_t fault) { live_.fetch_and(~(1ULL << fault)); }

  // A snapshot; other threads may be adding.
  FaultTally tally(std::uint32_t fault) const;
  // Brings all tallies up to date: before a process ends in order.
  void flush() const;

 private:
  struct Moment {
    std::uint64_t now_ns;
    std::uint64_t first_call_ns;
    std::uint64_t switches;
  };
  struct Compiled {
    std::uint32_t conditions = 0;
    bool is_host_met = true;
    std::uint64_t switch_bit = 0;
    std::uint64_t hash = 0;
    std::size_t column = 0;      // of the counters, shared by all with the same conditions
    bool is_selective = false;   // has nth, range or every
    bool is_drawn = false;       // has probability:
    std::uint64_t draw_end = 0;  // the top 53 bits of what is drawn are below this
  };
  // The faults that one call may still fire, and what is known of each.
  struct Draft {
    // Leaves the numbers uninitialised on purpose.
    Draft(const abi::Call& made, std::int32_t counter_row, bool tallied)  // NOLINT
        : call(made), row(counter_row), is_tallied(tallied) {}
    const abi::Call& call;
    std::int32_t row;
    bool is_tallied;  // by its class; else each match is tallied at once
    std::uint64_t fires = 0;
    std::array<std::uint64_t, kFaultsMax> numbers;  // of those in fires
    std::uint64_t known_identity = 0;

    // Computed once, because many faults may draw at one call.
    std::uint64_t identity(std::uint64_t number);
  };

  void compile(const Context& context);
  void assign_column(const std::vector<Trigger>& asked);
  std::uint64_t hash_of(const abi::Call& call) const;
  ClassVerdict classify(const abi::Call& call);
  std::uint32_t failed_fixed(std::uint32_t index, const abi::Call& call) const;
  std::uint32_t failed_moving(std::uint32_t index, const Moment& moment) const;
  std::uint64_t timely(const Moment& moment);
  std::uint64_t switched_on(std::uint64_t switches) const;
  void note_moving(std::uint64_t missed, const abi::Call& call, const Moment& moment);
  void draw(std::uint64_t ready, Draft& draft);
  void draw_column(std::size_t column, std::uint64_t members, Draft& draft);
  std::uint64_t first_after(std::uint32_t index, std::uint64_t number) const;
  bool is_counted(std::uint32_t index, std::uint64_t number) const;
  static std::uint64_t identity_of(const abi::Call& call, std::uint64_t number);
  bool wants(std::uint32_t index, Draft& draft, std::uint64_t number);
  std::size_t column_of(std::uint32_t index) const;
  void follow(const Controls& controls);
  void tally_class(CallClass& seen, const Moment* moment) const;
  void add_only(std::uint32_t index, std::uint32_t failed, std::uint64_t calls) const;
  void note_failure(std::uint32_t index, std::uint32_t failed, const abi::Call& call,
                    const Moment& moment);
  std::uint64_t note_first_call(std::uint64_t now_ns);
  void count_fired(std::uint32_t fault);

  Scenario scenario_;
  std::uint64_t start_ns_;
  std::vector<std::string> switch_names_;
  std::vector<Compiled> compiled_;
  std::uint32_t used_ = 0;              // conditions of any fault
  std::uint64_t timed_ = 0;             // faults with after or after_first_call
  std::uint64_t switched_ = 0;          // faults with a switch
  std::vector<std::uint64_t> members_;  // per shared column: its faults
  std::array<std::uint64_t, abi::kFunctionCount> candidates_{};
  std::array<std::uint32_t, abi::kFunctionCount> relevant_{};  // conditions of the candidates
  std::atomic<std::uint64_t> live_{0};
  std::atomic<std::uint64_t> armed_{0};
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<std::uint64_t> alone_{0};  // faults that count by themselves, not with their column
  std::atomic<std::uint64_t> first_call_wanted_{0};
  std::atomic<std::uint64_t> first_call_ns_{0};
  std::atomic<std::uint64_t> timely_{0};  // of timed_, those whose time has come …
  std::atomic<std::uint64_t> due_ns_{0};  // … and when the next one's does
  std::optional<MatchCounters> counters_;
  CallClasses classes_;
  std::vector<FaultTally> own_tallies_;
  std::span<FaultTally> tallies_;
};

}  // namespace sabot::scenario
