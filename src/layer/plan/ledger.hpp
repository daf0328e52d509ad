// The seam between a plan that wants to fire and whoever counts and proves it.
//
// RunLedger is that of the process's scenario: budgets and journal of the run. An injection
// (injection.hpp) counts its own budgets and tells its program besides.
#pragma once

#include "run/recorder.hpp"
#include "scenario/scenario.hpp"

namespace sabot::layer {

class Ledger {
 public:
  using Claim = run::Recorder::Claim;
  virtual ~Ledger() = default;

  // As Recorder::claim: fault is its index in the scenario. Thread-safe.
  virtual Result<Claim> claim(std::size_t fault) = 0;
  // An error says that the firing has no proof; it acts all the same. Thread-safe.
  virtual Status prove(const scenario::Fault& fault, const run::JournalEntry& entry) = 0;
  // A line that is no firing: why one did nothing. Thread-safe.
  virtual Status note(const run::JournalEntry& entry) = 0;
};

class RunLedger final : public Ledger {
 public:
  // The recorder was opened for the scenario's faults and outlives this.
  explicit RunLedger(run::Recorder& recorder) : recorder_(recorder) {}

  Result<Claim> claim(std::size_t fault) override { return recorder_.claim(fault); }
  Status prove(const scenario::Fault&, const run::JournalEntry& entry) override {
    recorder_.count_firing();
    return recorder_.journal().append(entry);
  }
  Status note(const run::JournalEntry& entry) override { return recorder_.journal().append(entry); }

 private:
  run::Recorder& recorder_;
};

}  // namespace sabot::layer
