// What `sabot ctl` says to the processes of a run: one mapped file, RUN/control.
//
// The launcher makes the file and writes it (control_writer.hpp); processes under test look at it
// at the price of one load a call: `generation` grows after every change, and whoever sees a new
// one reads the words that concern him. Processes write three things: they claim a requested
// firing, so that one rank makes it, they count what fired, and they list the calls they hold, so
// that `sabot ctl status` shows both. Plan 0 is the scenario of the run, plan N the N-th that was
// added while it ran (RUN/added/N.toml); a fault is its position in its plan. A process without a
// run folder, or whose faults are not those of the run, has a plan of its own that nobody changes,
// and so has the child of a fork.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace sabot::run {

inline constexpr std::uint64_t kControlMagic = 0x4C5254434F424153;  // "SABOCTRL" in the file
inline constexpr std::uint32_t kControlVersion = 1;
inline constexpr std::size_t kControlFaultsMax = 64;  // of one plan: a set of them is a word
inline constexpr std::size_t kControlPlansMax = 16;   // the scenario, and what was added
inline constexpr std::size_t kControlHoldsMax = 256;  // held at one time; more are not listed

struct ControlPlan {
  std::atomic<std::uint64_t> armed;                       // bit i: fault i may fire by its trigger
  std::atomic<std::uint64_t> switches;                    // bit i: switch i is on
  std::atomic<std::uint64_t> fires_waiting;               // bit i: fire[i] holds a request
  std::atomic<std::uint64_t> fire[kControlFaultsMax];     // sequence << 32 | for whom
  std::atomic<std::uint64_t> release[kControlFaultsMax];  // grows with each release of the fault
  std::atomic<std::uint64_t> fired[kControlFaultsMax];    // in all processes of this host
};

struct ControlHold {
  std::atomic<std::uint64_t> owner;     // pid << 32 | state; 0: free
  std::atomic<std::uint64_t> since_ns;  // CLOCK_REALTIME
  std::atomic<std::uint64_t> what;      // plan << 48 | fault << 32 | world rank
};

struct alignas(64) ControlPage {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t bytes;
  std::uint64_t names_hash;  // of the faults and switches of plan 0
  // Apart from the constants: read at every call, written only by the launcher.
  alignas(64) std::atomic<std::uint64_t> generation;
  std::atomic<std::uint64_t> added;        // plans 1 … added are there to be read
  std::atomic<std::uint64_t> release_all;  // grows with each release of everything
  alignas(64) ControlPlan plans[kControlPlansMax];
  ControlHold holds[kControlHoldsMax];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The low half of a fire word.
inline constexpr std::uint32_t kFireNobody = 0;
inline constexpr std::uint32_t kFireAnyRank = 1;
inline constexpr std::uint32_t kFireRank0 = 2;  // + world rank

// The low half of a hold's owner.
inline constexpr std::uint32_t kHoldBeingListed = 1;
inline constexpr std::uint32_t kHoldListed = 2;

// The faults of plan 0 by name, which is all that a plan means to the page.
struct ControlNames {
  std::vector<std::string> faults{};
  std::vector<std::string> switches{};      // in the order of their bits
  std::uint64_t armed = ~std::uint64_t{0};  // at the beginning; bit i: fault i
};
std::uint64_t hash_of(const ControlNames& names);
std::string control_page_path(const std::string& run_folder);

// A mapping of RUN/control, shared and writable.
class ControlMapping {
 public:
  // kNotFound if the run has no page.
  static Result<ControlMapping> open(const std::string& run_folder);
  ControlMapping() = default;
  ControlMapping(ControlMapping&& other) noexcept;
  ControlMapping& operator=(ControlMapping&& other) noexcept;
  ~ControlMapping();
  ControlPage* page() const { return page_; }  // null: nothing mapped

 private:
  explicit ControlMapping(ControlPage* page) : page_(page) {}
  ControlPage* page_ = nullptr;
};

struct ControlFault {
  std::uint32_t plan = 0;
  std::uint32_t fault = 0;  // < kControlFaultsMax
};

// What a process under test sees. Thread-safe after open().
class Control {
 public:
  Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Before anything else. folder = "": a page of its own, as also on an error and where the run has
  // none.
  Status open(const std::string& folder, const ControlNames& names);

  // What the process knows is out of date if this is not what it was then.
  std::uint64_t generation() const {
    // relaxed: the pointer changes only in the child of a fork, which has one thread
    const ControlPage* const page = page_.load(std::memory_order_relaxed);
    return page->generation.load(std::memory_order_acquire);  // pairs with: ControlWriter::bump
  }
  bool changed(std::uint64_t seen) const { return generation() != seen; }
  // Plans 1 … added() can be read from RUN/added/N.toml.
  std::uint32_t added() const;
  std::uint64_t armed(std::uint32_t plan) const { return plan_at(plan).armed.load(); }
  std::uint64_t switches(std::uint32_t plan) const { return plan_at(plan).switches.load(); }

  // The faults of a plan that were asked to fire now on this rank (-1: unknown); bit i: fault i.
  // One load where nothing was asked.
  std::uint64_t fires_for(std::uint32_t plan, std::int32_t world_rank) const {
    // relaxed: claim_fire() finds out for itself
    const std::uint64_t waiting = plan_at(plan).fires_waiting.load(std::memory_order_relaxed);
    return waiting == 0 ? 0 : fires_among(waiting, plan, world_rank);
  }
  // Whether this rank is to carry the request out: of all that ask, one is told yes.
  bool claim_fire(const ControlFault& fault, std::int32_t world_rank);

  void count_fired(const ControlFault& fault) {
    // relaxed: a counter
    plan_at(fault.plan).fired[fault.fault].fetch_add(1, std::memory_order_relaxed);
  }

  // A hold notes the count when it begins, and is over when the count is another. A plan that is
  // none of the run's is released only with everything.
  std::uint64_t release_count(const ControlFault& fault) const;

  // Lists a held call for as long as the object lives. Where the list is full it is not shown.
  class Listing {
   public:
    Listing(Control& control, const ControlFault& fault, std::int32_t world_rank);
    ~Listing();
    Listing(const Listing&) = delete;
    Listing& operator=(const Listing&) = delete;

   private:
    ControlHold* hold_ = nullptr;
    std::uint64_t owner_ = 0;
  };

  // In the child of a fork, async-signal-safe: a page of its own from here on.
  void after_fork_child() noexcept { page_.store(&own_); }

 private:
  ControlPlan& plan_at(std::uint32_t plan) const {
    // relaxed: as in generation()
    ControlPage* const page = page_.load(std::memory_order_relaxed);
    return plan == 0 && !is_plan_of_run_ ? own_.plans[0] : page->plans[plan];
  }
  std::uint64_t fires_among(std::uint64_t waiting, std::uint32_t plan,
                            std::int32_t world_rank) const;

  mutable ControlPage own_{};
  ControlMapping shared_;
  std::atomic<ControlPage*> page_;
  bool is_plan_of_run_ = false;
};

}  // namespace sabot::run
