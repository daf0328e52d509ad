// All that one process has of its run: journal, budget claims, counters, attach record, control.
//
// Opened once, at the first call of the API, from the settings of the process; without a run folder
// everything works within the process. A part that cannot be opened is reported in problems() and
// degrades alone: no folder must ever end somebody's training. Lives as long as the process. After
// a fork the child calls after_fork_child() and from then on touches nothing of its parent (C17);
// it may open a Recorder of its own when it creates a communicator.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/snapshot.hpp"
#include "run/attach_record.hpp"
#include "run/budget.hpp"
#include "run/control_page.hpp"
#include "run/journal.hpp"
#include "run/record/observation.hpp"
#include "run/tally.hpp"

namespace sabot::run {

struct PlannedFault {
  std::string name;
  std::uint64_t budget = 0;  // 0 = unlimited
  bool is_armed = true;      // from the beginning, else once `sabot ctl arm` says so
};

struct RecorderOptions {
  std::string run_folder;  // "" = none
  bool spans_hosts = false;
  std::vector<PlannedFault> faults;
  std::vector<std::string> switches{};  // of the faults, in the order of their bits
  std::uint64_t plan_hash = 0;          // of the scenario; the same in every process of the run
  std::uint32_t slot_bytes = 0;         // of what is counted for each fault; 0 = nothing
  Journal::Sink sink = nullptr;
  void* sink_context = nullptr;
};

class Recorder {
 public:
  // The folder and the hosts from the settings, the rest from the caller.
  static RecorderOptions options_from(const config::Snapshot& settings);

  explicit Recorder(const RecorderOptions& options);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool has_folder() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }
  const std::string& tag() const { return tag_; }
  // What could not be opened, one sentence each, to be reported once.
  const std::vector<std::string>& problems() const { return problems_; }

  Journal& journal() { return journal_; }
  Control& control() { return control_; }
  Observation& observation() { return observation_; }
  TallyPage& counters() { return tally_.page(); }
  // relaxed: a counter
  void count_firing() { counters().faults_fired.fetch_add(1, std::memory_order_relaxed); }
  // One slot a planned fault, zeroed; sizeof(T) is the slot_bytes of the options, else it is empty.
  template <typename T>
  std::span<T> slots() {
    return tally_.slots<T>();
  }
  // The number of this firing from 1, or 0: the budget is used up. A fault without a budget always
  // may.
  struct Claim {
    bool allowed = false;
    std::uint64_t number = 0;  // 0 = the fault has no budget
  };
  Result<Claim> claim(std::size_t fault_index);

  // Nothing is written where there is no run folder.
  Status write_attach(const AttachRecord& record) const;

  // Async-signal-safe.
  void after_fork_child() noexcept;

 private:
  std::string folder_;
  std::string tag_;
  std::vector<std::string> problems_;
  std::vector<bool> limited_;
  Journal journal_;
  Observation observation_;
  Budget budget_;
  Tally tally_;
  Control control_;
  std::atomic<bool> forked_{false};
};

}  // namespace sabot::run
