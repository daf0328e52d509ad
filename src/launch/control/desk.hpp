// Answers the requests of `sabot ctl`: finds what a name means, changes the control page, says what
// follows.
//
// Knows the faults of the run and of what was added to it, each by a name that is unique in the run
// (budgets and journal go by names), and switches, which all plans share by name. Whatever is
// refused has changed nothing. No sockets here: a line in, a line out, in one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/control/request.hpp"
#include "launch/control/run_status.hpp"
#include "run/control_writer.hpp"
#include "scenario/scenario.hpp"

namespace sabot::launch::control {

// The faults of a run as the control page needs them.
run::ControlNames names_of(const scenario::Scenario& scenario);

// The scenarios that were added to a run so far, in order; one that cannot be read is empty, and
// named in problems.
std::vector<scenario::Scenario> added_scenarios(const std::string& run_folder,
                                                std::vector<std::string>& problems);

struct DeskFacts {
  std::string run_folder;
  scenario::Scenario scenario;  // of the run: file and lines together
  std::string unshared;         // why budgets do not hold in this folder; "" = they do
};

class Desk {
 public:
  Desk(DeskFacts facts, run::ControlWriter writer);

  // Without newlines, both.
  std::string answer(std::string_view line);
  RunStatus status();

 private:
  struct Known {
    run::ControlFault where;
    const scenario::Fault* fault;
  };
  struct Switch {
    std::uint32_t plan;
    std::uint32_t bit;
  };

  Result<Answer> carry_out(const Request& request);
  Result<Answer> arm(const std::string& name, bool is_armed);
  Answer arm_fault(const Known& known, bool is_armed);
  Result<Answer> fire(const Request& request);
  Result<Answer> release(const std::string& name);
  Result<Answer> add(const Request& request);
  Status check_addable(const scenario::Scenario& scenario, const std::string& file) const;

  std::optional<Known> fault_named(std::string_view name) const;
  std::vector<Switch> switches_named(std::string_view name) const;
  // For a request that only a fault can meet.
  Result<Known> need_fault(std::string_view name, std::string_view why_no_switch) const;
  Error unknown(std::string_view name) const;
  std::size_t held_by(const run::ControlFault& fault);
  std::uint64_t left_of(const scenario::Fault& fault) const;
  FaultStatus fault_status(const Known& known, const std::vector<run::HeldCall>& held) const;
  void count_processes(RunStatus& status) const;

  DeskFacts facts_;
  run::ControlWriter writer_;
  std::vector<scenario::Scenario> plans_;  // 0: of the run
  std::vector<std::string> problems_;
  std::uint64_t started_ns_;
};

}  // namespace sabot::launch::control
