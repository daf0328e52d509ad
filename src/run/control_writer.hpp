// The launcher's side of the control page: makes it, and writes what `sabot ctl` asks for.
//
// One process of a run writes at a time (the one that serves, see launch/control), from one thread.
// Each change ends with a new generation, so that a process which sees it sees the change too.
#pragma once

#include <optional>
#include <vector>

#include "run/control_page.hpp"

namespace sabot::run {

struct HeldCall {
  ControlFault fault;
  std::int32_t world_rank = -1;
  std::int32_t pid = 0;
  std::uint64_t since_ns = 0;
};

inline constexpr std::int32_t kAnyRank = -1;

// Whether a process of this host has ended, also where nobody has asked for its status yet.
bool process_has_ended(int pid);

class ControlWriter {
 public:
  // Makes the page, or takes the one that another launcher of this run has made, as it is.
  // kInvalidUsage if that one belongs to other faults.
  static Result<ControlWriter> open(const std::string& run_folder, const ControlNames& names);

  bool is_armed(const ControlFault& fault) const;
  void set_armed(const ControlFault& fault, bool is_armed);
  bool is_switched_on(std::uint32_t plan, std::uint32_t bit) const;
  void set_switch(std::uint32_t plan, std::uint32_t bit, bool is_on);

  // Replaces a request of the fault that waits.
  void request_fire(const ControlFault& fault, std::int32_t world_rank);
  void withdraw_fire(const ControlFault& fault);
  // The rank for which a request waits, perhaps kAnyRank.
  std::optional<std::int32_t> waiting_fire(const ControlFault& fault) const;

  void release(const ControlFault& fault);
  void release_all();

  // Plan added() + 1 lies in its file: processes may read it from here on.
  void count_added(std::uint64_t armed, std::uint64_t switches);
  std::uint32_t added() const;

  std::uint64_t fired(const ControlFault& fault) const;
  // The held calls of processes that live; of others the entries are taken off the list.
  std::vector<HeldCall> held();

 private:
  explicit ControlWriter(ControlMapping mapping) : mapping_(std::move(mapping)) {}
  ControlPage& page() const { return *mapping_.page(); }
  ControlPlan& plan_of(const ControlFault& fault) const { return page().plans[fault.plan]; }
  void bump();

  ControlMapping mapping_;
};

}  // namespace sabot::run
