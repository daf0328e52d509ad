// Decides which faults of a scenario fire at a call. It never acts: budgets, journal and effects
// belong to the caller.
//
// A call first meets one word of candidates for its function, so that faults on other functions
// cost a load and a branch. The rest is pure arithmetic on the call, the time and one counter per
// fault, rank and attempt; nothing allocates, locks, prints or asks the system. Conditions are of
// three kinds, and a call passes them in this order:
//
//   1. conditions of the call and its moment (rank, bytes, attempt, after, switch …); all of them
//      are looked at, so that a fault which never fires can be explained;
//   2. nth, range, every: on the number of calls that met all of the above, 1-based, per rank and
//      attempt;
//   3. probability: drawn from seed, fault, world rank, attempt, comm, function and the call's
//      number on its comm, so that one call is decided alike in every run, whatever other ranks
//      and threads do.
//
// Thread-safe: enter() may run in any number of threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "abi/call.hpp"
#include "scenario/scenario.hpp"
#include "scenario/tally.hpp"

namespace sabot::scenario {

// Ranks × attempts that one process can hold; more are not considered, and the tally says so.
inline constexpr std::size_t kCountersMax = 1024;

struct Firing {
  std::uint32_t fault;   // index into Scenario::faults
  std::uint64_t number;  // the how-manieth match of this rank in this attempt
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

  // switches: bit i is on if switch_names()[i] is.
  Verdict enter(const abi::Call& call, std::uint64_t now_ns, std::uint64_t switches = 0);
  const std::vector<std::string>& switch_names() const { return switch_names_; }

  // Asks claim(const Firing&) for each firing in file order and keeps those it allows: the first
  // `error` that is allowed wins, later ones are not asked. What is kept counts as fired.
  template <typename Claim>
  Verdict settle(const Verdict& wanted, Claim&& claim) {
    Verdict kept;
    bool has_error = false;
    for (const Firing& firing : wanted) {
      const bool is_error = fault(firing.fault).action.kind == ActionKind::kError;
      if ((is_error && has_error) || !claim(firing)) continue;
      has_error = has_error || is_error;
      count_fired(firing.fault);
      kept.add(firing);
    }
    return kept;
  }

  // The fault is out of budget, in this and every other process: it is not considered any more.
  void retire(std::uint32_t fault) { live_.fetch_and(~(1ULL << fault)); }

  // A snapshot; other threads may be adding.
  FaultTally tally(std::uint32_t fault) const;

 private:
  struct Counter {
    std::atomic<std::uint64_t> owner{0};  // 0: free; else attempt and rank
    std::atomic<std::uint64_t> count{0};
  };
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
  };

  bool decide(std::uint32_t index, const abi::Call& call, const Moment& moment, Firing& firing);
  std::uint32_t failed_conditions(std::uint32_t index, const abi::Call& call,
                                  const Moment& moment) const;
  std::uint64_t next_number(std::uint32_t index, const abi::Call& call);
  bool is_drawn(std::uint32_t index, const abi::Call& call, std::uint64_t number) const;
  void note_failure(std::uint32_t index, std::uint32_t failed, const abi::Call& call,
                    const Moment& moment);
  std::uint64_t note_first_call(std::uint64_t now_ns);
  void count_fired(std::uint32_t fault);

  Scenario scenario_;
  std::uint64_t start_ns_;
  std::vector<std::string> switch_names_;
  std::vector<Compiled> compiled_;
  std::array<std::uint64_t, abi::kFunctionCount> candidates_{};
  std::atomic<std::uint64_t> live_{0};
  std::atomic<std::uint64_t> first_call_wanted_{0};
  std::atomic<std::uint64_t> first_call_ns_{0};
  std::unique_ptr<Counter[]> counters_;  // kCountersMax per fault
  std::vector<FaultTally> own_tallies_;
  std::span<FaultTally> tallies_;
};

}  // namespace sabot::scenario
