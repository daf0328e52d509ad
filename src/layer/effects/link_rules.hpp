// The rules that `link` faults have left: what happens to the messages between this rank and a
// peer.
//
// A table of this process, because links belong to it and not to a layer: a firing puts a row in,
// its time limit, `sabot ctl release` or the end of its communicator takes it out, and whoever
// carries bytes (sabot/link.h; the host engine) looks rows up. Decides nothing and moves nothing.
// Thread-safe; the generation is one load, a look-up takes a lock that is held for a pass over the
// table at most.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "abi/call.hpp"
#include "base/result.hpp"
#include "layer/effects/link_effects.hpp"
#include "sabot/link.h"
#include "scenario/act.hpp"

namespace sabot::layer {

class LinkRules {
 public:
  static constexpr std::size_t kRulesMax = 256;

  // The one of this process.
  static LinkRules& process();

  // Who is to act on a rule: the host engine, which knows ranks of a communicator, or the network
  // plugin below NVIDIA's library, which knows world ranks only.
  enum class Carrier : std::uint8_t { kHostEngine, kNetPlugin };

  // The rule of this firing holds from now on. call: the one that the fault fired on, for its
  // communicator; peers are ranks of that. A second firing of the same fault on the same
  // communicator replaces the first. kUnsupported, with a text for journal and log: nothing in this
  // process would act on it, or peers are named that have no world rank. kInvalidUsage: kRulesMax
  // rules hold already.
  // name: of the fault, for what carriers report.
  Status apply(const scenario::Act& act, const abi::Call& call, Carrier carrier, FaultId fault,
               std::string_view name);
  // Somebody in this process acts on rules, and begins to now.
  void note_carrier(Carrier carrier) noexcept {
    has_carrier_[static_cast<std::size_t>(carrier)].store(true);
  }

  // What this fault did ends.
  void release(FaultId fault);
  void release_all();
  // Abort, destroy, finalize or revoke: its links are as they were. Call it before forwarding.
  void end_comm(const void* comm);
  // The child of a fork starts with none. Async-signal-safe.
  void forget() noexcept;

  // pairs with: changed
  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

  // Everything that holds for this pair at now_ns (CLOCK_MONOTONIC), as sabot/link.h answers. -1 as
  // there.
  sabot_link_rule_t between(int world_rank, int peer_world_rank, std::uint64_t now_ns) const;
  // The same within one communicator, by its ranks: for the engine that executes it.
  sabot_link_rule_t within(const void* comm, int rank, int peer, std::uint64_t now_ns) const;

 private:
  struct Rule {
    Carrier carrier = Carrier::kHostEngine;
    const void* comm = nullptr;
    int rank = -1;
    int world_rank = -1;
    std::uint32_t effects = 0;  // 0: this row is free
    std::uint64_t peers = 0;
    std::uint64_t delay_ns = 0;
    std::uint64_t rate_bytes_per_s = 0;
    std::uint64_t until_ns = 0;
    FaultId fault;
    char name[sizeof(sabot_link_rule_t::fault)] = "";
  };

  // Not a std::mutex: the child of a fork has to open one that its parent held.
  class Lock {
   public:
    explicit Lock(std::atomic<bool>& word);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    std::atomic<bool>& word_;
  };

  template <typename Matches>
  void remove_if(Matches matches);
  template <typename Matches>
  sabot_link_rule_t sum_of(std::uint64_t now_ns, Matches matches) const;
  Status check(const scenario::Act& act, const abi::Call& call, Carrier carrier) const;
  // The row of this fault on this communicator, else a free one, else null.
  Rule* row_for(const abi::Call& call, FaultId fault, std::uint64_t now_ns);
  void changed() noexcept {
    // pairs with: generation
    generation_.fetch_add(1, std::memory_order_release);
  }

  mutable std::atomic<bool> locked_{false};
  std::array<Rule, kRulesMax> rules_{};
  std::atomic<std::uint64_t> generation_{1};
  std::array<std::atomic<bool>, 2> has_carrier_{};  // by Carrier
};

// The fault layer's way to the rules of this process.
class RuledLinks final : public LinkEffects {
 public:
  // names: of the faults of the process's scenario; those of an injection are called by its number.
  RuledLinks(LinkRules& rules, LinkRules::Carrier carrier, std::vector<std::string> names)
      : rules_(rules), carrier_(carrier), names_(std::move(names)) {}

  Status apply(const scenario::Act& act, const abi::Call& call, FaultId fault) override;
  void release(FaultId fault) override { rules_.release(fault); }
  void release_all() override { rules_.release_all(); }
  void forget(const void* comm) override { rules_.end_comm(comm); }

 private:
  LinkRules& rules_;
  LinkRules::Carrier carrier_;
  std::vector<std::string> names_;
};

}  // namespace sabot::layer
