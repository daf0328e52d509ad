// The communicators of this process: a side table keyed by the real handle (boundary rule B5).
//
// Handles are never wrapped. A record holds what a Call says about its comm (label, name, ranks)
// and the counters that number calls. Look-up is lock-free; creation and retirement take a lock.
// Records are never freed: NCCL reuses addresses, so their number is bounded by the comms alive at
// one time, and a retired record answers "destroyed already" until its address is reused.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "abi/api_table.hpp"

namespace sabot::call {

struct CommRecord {
  const void* handle = nullptr;
  std::atomic<bool> live{false};
  char label[48] = "";
  char name[64] = "";
  std::atomic<int> rank{-1};
  std::atomic<int> ranks{0};
  std::atomic<int> world_rank{-1};
  bool nonblocking = false;
  // How it came to be: a handle of kAnnounced is a key of sabot_comm_open, not one of NCCL's.
  abi::Lane lane = abi::Lane::kProcess;
  const void* target = nullptr;  // Call::target of the call that made it
  std::uint64_t identity = 0;    // hash of the unique id: joins ranks within one run only
  std::atomic<std::uint32_t> children{0};
  std::atomic<std::uint64_t> collectives{0};
  std::array<std::atomic<std::uint64_t>, abi::kFunctionCount> nth{};
  CommRecord* next_in_bucket = nullptr;
};

// What is known of a communicator when the call that creates it returns.
struct Birth {
  const void* handle = nullptr;
  int rank = -1;  // -1: ask the library once it is ready
  int ranks = 0;
  std::uint64_t identity = 0;  // 0: none (derived from a parent, or adopted)
  const CommRecord* parent = nullptr;
  std::uint32_t child_number = 0;  // with parent: 0 for the first split or shrink of it
  bool nonblocking = false;
  abi::Lane lane = abi::Lane::kProcess;  // kAnnounced: its rank is known, no engine is ever asked
  const void* target = nullptr;
  const char* name = "";
};

class Registry {
 public:
  // environment_rank: RANK and friends, -1 if none is set.
  explicit Registry(int environment_rank) : environment_rank_(environment_rank) {}
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The live record of a handle, or null.
  CommRecord* find(const void* handle) const noexcept;
  // Whether a communicator at this address was destroyed and none was created there since.
  bool is_retired(const void* handle) const noexcept;
  CommRecord& create(const Birth& birth);
  void retire(const void* handle) noexcept;
  // Whether another rank of the same communicator lives in this process, as far as is known.
  bool has_sibling(const void* handle) const noexcept;
  // Takes back a retirement whose call was refused.
  void revive(const void* handle) noexcept;
  // Fills in rank and ranks of a record that does not know them yet by asking the engine.
  static void ask_ranks(CommRecord& record, const abi::Api& engine, abi::Call& call);
  // Counters of functions that belong to no communicator.
  CommRecord& nowhere() { return nowhere_; }
  int environment_rank() const { return environment_rank_; }
  // A forked child inherits no communicator (B19).
  void forget_all() noexcept;

 private:
  static constexpr std::size_t kBuckets = 1024;
  struct Root {
    std::uint64_t identity;
    int index;
    CommRecord* first;
  };

  static std::size_t bucket_of(const void* handle);
  CommRecord* lookup(const void* handle) const noexcept;
  int root_index(std::uint64_t identity, CommRecord& record, bool& first_of_process);

  int environment_rank_;
  std::mutex mutex_;
  std::vector<Root> roots_;
  int next_root_ = 0;
  CommRecord nowhere_;
  std::array<std::atomic<CommRecord*>, kBuckets> buckets_{};
};

}  // namespace sabot::call
