// Link faults on this engine: whether a message may pass from this rank to others now.
//
// A message lies in one place for all its readers, so what a fault does to one of them happens to
// the message: held back for one, it is held back for all; lost for one, for all. A cut is a
// failure of the communicator, which names both ranks and the fault. Waiting is left to the tasks,
// which ask again; so an abort ends it. While no rule holds, asking costs one load and two
// comparisons. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "link/net/rules.hpp"
#include "link/segment.hpp"
#include "schedule/schedule.hpp"

namespace sabot::host {

class Gate {
 public:
  enum class Passage : std::uint8_t { kOpen, kHeld, kLost };
  struct Cut {
    int peer = -1;
    std::string text;
  };

  // rules: for this rank, by ranks of its communicator.
  Gate(std::unique_ptr<const link::net::RuleSource> rules, int rank, int world)
      : rules_(std::move(rules)), rank_(rank), world_(world) {}

  bool is_idle() const {
    // Both relaxed: whoever is told of a rule meanwhile sees it at its next message.
    return rules_->generation() == seen_.load(std::memory_order_relaxed) &&
           !has_rules_.load(std::memory_order_relaxed);
  }

  // The first of these peers to whom the link is cut.
  std::optional<Cut> cut(schedule::RankMask peers);
  // Of a message of so many bytes. due_ns belongs to the message: 0 at first, and again once it has
  // passed.
  Passage pass(schedule::RankMask readers, std::size_t bytes, std::uint64_t& due_ns);
  // Whether nothing comes in from some of these.
  bool is_closed(schedule::RankMask sources);

 private:
  sabot_link_rule_t sum_over(schedule::RankMask peers);

  std::unique_ptr<const link::net::RuleSource> rules_;
  int rank_;
  int world_;
  std::atomic<std::uint64_t> seen_{0};
  std::atomic<bool> has_rules_{false};
  std::mutex mutex_;  // of looking rules up
  link::net::Pace pace_;
};

}  // namespace sabot::host
