// How often a fault may fire in a whole run, restarts and all ranks included.
//
// A firing is claimed by creating budget/FAULT.N with O_EXCL: the file system decides between
// processes, and a restarted job finds the claims of the attempt before it. Claims of one fault
// form a prefix 1…k, so a process that starts late finds the first free number by bisection.
// Without a run folder the numbers are counted in this process. Thread-safe and lock-free after
// add(); a forked child may claim nothing until it has a budget of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace sabot::run {

class Budget {
 public:
  // Before any claim(). folder = "" counts in this process.
  void open(const std::string& folder);
  // From now on every claim is this error: used where the hosts of a job share no folder.
  void refuse(std::string why);
  // Registers a fault that may fire limit times; returns the index for claim().
  std::size_t add(std::string_view fault, std::uint64_t limit);

  // The number of this firing, from 1, or 0: used up. An error means that nobody knows, and that
  // the fault must not fire.
  Result<std::uint64_t> claim(std::size_t index);

  // In the child of a fork, async-signal-safe: every claim is 0 from here on.
  void after_fork_child() noexcept { owner_pid_.store(0); }

  // Claims made so far in a run folder, by all processes; for the end of a run.
  static std::uint64_t count_claims(const std::string& run_folder, std::string_view fault);

 private:
  struct Allowance {
    std::string path;  // of the claim files, without the number; "" = counted here
    std::uint64_t limit = 0;
    std::atomic<std::uint64_t> next{1};
    std::atomic<bool> searched{false};
  };
  Result<std::uint64_t> claim_file(Allowance& allowance);

  std::string folder_;
  std::string refusal_;
  std::deque<Allowance> allowances_;
  std::atomic<int> owner_pid_{0};
};

// Why budgets cannot hold over several hosts in this folder; "" if they can, as far as can be seen.
// spans_hosts is what the job's launcher says (config::Snapshot::spans_hosts).
std::string unshared_folder_text(const std::string& run_folder, bool spans_hosts);

}  // namespace sabot::run
