// The stack of this process: its engine, the layers over it, and the entries that lead there.
//
// Opened by the first call of any exported function, never before (B11), and never closed. If
// another library of ours was loaded earlier, that one owns the stack and our entries forward to
// it. Otherwise the engine is chosen by the rule of docs/concepts.md, the run is joined, the
// scenario is armed, and the entries are pointed (publication.hpp). They are pointed anew when the
// program injects its first fault or withdraws the last.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "call/boundary.hpp"
#include "config/snapshot.hpp"
#include "layer/plan/injection.hpp"
#include "run/recorder.hpp"
#include "scenario/scenario.hpp"
#include "stack/real_engine.hpp"

namespace sabot::stack {

class Layers;

enum class EngineKind : std::uint8_t { kReal, kHost };

class Stack {
 public:
  // The stack that this library owns; null before first use and where another copy owns it.
  static Stack* current() noexcept {
    return current_.load(std::memory_order_acquire);  // pairs with: Stack
  }
  // Opens the process's stack and publishes the entries; repeated calls do nothing. False while
  // this very thread is opening it already, or if no engine can be had: entries then lead to
  // refusals.
  static bool open() noexcept;

  explicit Stack(const config::Snapshot& settings);
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack();

  // For the bridge.
  abi::Api engine() const { return engine_; }
  abi::Api top() const { return top_; }
  RealEngine* real() const { return real_.get(); }  // null on the host engine
  // The host engine, be it that of this process or, after follow(), the one beside a real engine.
  abi::Api host() const { return host_; }
  const CopyTables& beside() const { return beside_; }
  call::Boundary& boundary() { return boundary_; }
  run::TallyPage& counters() { return recorder_->counters(); }
  // relaxed: counters order nothing; the page was opened before the entries led here
  void count_call(call::ThreadState& thread) {
    run::TallyPage& page = *page_.load(std::memory_order_relaxed);
    if (thread.counter == 0) thread.counter = ++owners_;
    if (thread.counter > run::kTallyOwnersMax) {
      page.calls_seen.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    std::atomic<std::uint64_t>& own = page.owned_calls[thread.counter - 1];
    own.store(own.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void count_error(const abi::Call& call, ncclResult_t result) {
    if (__builtin_expect(result == ncclSuccess || result == ncclInProgress, 1)) return;
    // relaxed: a counter
    if (!call.injected) counters().errors_from_real.fetch_add(1, std::memory_order_relaxed);
    note_seen(run::SeenKind::kError, call, result, call.comm_label);
  }
  // For the record of what the application was told (sightings.cpp). reported: what
  // CommGetAsyncError wrote, or null.
  void saw_async_error(const abi::Call& call, const ncclResult_t* reported) noexcept;
  void saw_ending(const abi::Call& call) noexcept;
  void saw_creation(const abi::Call& call, const call::Creation& creation) noexcept;
  // Whether any call of the application came through.
  bool saw_application() const {
    const run::TallyPage* page = page_.load();
    return page == nullptr || page->total_calls() > 0;
  }
  bool is_forked_child() const { return forked_.load(); }
  // Notices a library that came later (real), and that a forked child now has a communicator of its
  // own.
  void before_creation();
  void after_creation();
  // Communicators are there, so that faults on their streams can be made ready (B16).
  void prepare(const abi::Call& call, const call::Creation& creation);

  // From now on communicators and groups are followed, and the host engine is there.
  void follow();
  // "" if there is an engine.
  const std::string& failure() const { return failure_; }
  // Null where Sabot is disabled. Valid for the duration of a call.
  Layers* layers() const { return layers_.get(); }

  // Faults that the program arms itself (injecting.cpp). The id, from 1.
  Result<std::uint64_t> inject(std::string_view text, layer::FiredCallback callback);
  struct Withdrawal {
    std::uint64_t fired_count = 0;
    std::string why_not;   // a line for each fault that never fired
    bool is_left = false;  // no other thread is inside the injection any more
  };
  // kNotFound: there is no such injection.
  Result<Withdrawal> withdraw(std::uint64_t id);

 private:
  static std::atomic<Stack*> current_;

  void note_seen(run::SeenKind kind, const abi::Call& call, ncclResult_t result,
                 const char* comm_label) noexcept;
  void choose_engine();
  Status open_real();
  void open_host(std::string reason);
  void join_run();
  void write_attach_record(const scenario::Scenario& scenario);
  void say_armed(const scenario::Scenario& scenario) const;
  std::string engine_text() const;
  void publish_entries();
  void publish_held();  // under publishing_
  static void before_fork() noexcept;
  static void after_fork_parent() noexcept;
  static void after_fork_child() noexcept;

  const config::Snapshot& settings_;
  EngineKind kind_ = EngineKind::kReal;
  std::string engine_reason_;
  std::string failure_;  // why there is no engine
  std::unique_ptr<RealEngine> real_;
  abi::Api engine_;
  abi::Api host_;
  CopyTables beside_;
  abi::Api top_;
  call::Boundary boundary_;
  std::unique_ptr<run::Recorder> recorder_;
  std::unique_ptr<Layers> layers_;
  std::atomic<run::TallyPage*> page_{nullptr};  // the recorder's
  std::atomic<std::uint32_t> owners_{0};
  std::atomic<bool> forked_{false};
  std::atomic<bool> said_unseen_{false};
  std::atomic<std::uint64_t> injections_{0};  // made so far
  std::mutex publishing_;                     // held while entries change
  bool is_following_ = false;                 // under publishing_
};

}  // namespace sabot::stack
