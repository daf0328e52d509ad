// Birth, execution and end: everything that is announced goes through run() or end() here.
#include "pytorch/proxy/proxy.hpp"

#include <unistd.h>

#include <map>
#include <utility>

#include "pytorch/group/work.hpp"
#include "pytorch/library.hpp"
#include "pytorch/python_lock.hpp"

namespace sabot::pytorch::proxy {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  constexpr std::uint64_t kPrime = 0x100000001b3;  // FNV-1a, a byte at a time
  for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ (value >> shift & 0xff)) * kPrime;
  return hash;
}

std::uint64_t mix(std::uint64_t hash, const std::string& text) {
  for (const char letter : text) hash = mix(hash, static_cast<unsigned char>(letter));
  return mix(hash, text.size());
}

// Equal on all ranks, different for every other group: torch uses names again once all groups are
// destroyed, but all ranks of a group make it equally often.
std::uint64_t identity_of(const Member& member, const std::string& backend) {
  static std::mutex mutex;
  static std::map<std::pair<std::uint64_t, int>, std::uint64_t> births;
  std::uint64_t hash = mix(mix(0xcbf29ce484222325, backend), member.group);
  for (const std::int64_t rank : member.global_ranks) {
    hash = mix(hash, static_cast<std::uint64_t>(rank));
  }
  const std::lock_guard<std::mutex> lock(mutex);
  return mix(hash, ++births[{hash, member.rank}]);
}

void announce_creation(const Member& member, Place place) {
  for (const char* function : {"GetUniqueId", "CommInitRankConfig"}) {
    const bool is_for_all = function[0] == 'C';
    if (!is_for_all && member.rank != 0) continue;
    sabot_call_t call = call_of(function, nullptr);
    call.rank = member.rank;
    call.ranks = member.size;
    Announced(call, Style::kBackendError, place).leave();
  }
}

}  // namespace

c10::intrusive_ptr<Proxy> Proxy::create(BackendRef inner, const std::string& inner_name,
                                        Member member, const void* parent) {
  auto proxy = c10::make_intrusive<Proxy>(std::move(inner), inner_name, std::move(member));
  proxy->open_comm(parent);
  return proxy;
}

Proxy::Proxy(BackendRef inner, const std::string& inner_name, Member member)
    : Backend(member.rank, member.size),
      inner_(std::move(inner)),
      inner_name_(inner_name),
      name_("sabot:" + inner_name),
      member_(std::move(member)),
      pid_(::getpid()) {
  init();
}

void Proxy::open_comm(const void* parent) {
  if (parent == nullptr) announce_creation(member_, here());
  sabot_comm_info_t info{};
  info.size = sizeof info;
  info.key = key();
  info.rank = member_.rank;
  info.ranks = member_.size;
  info.identity = identity_of(member_, name_);
  info.name = member_.group.c_str();
  info.parent = parent;
  check(library().comm_open(&info), nullptr);
  state_.store(State::kOpen);
}

Proxy::~Proxy() {
  const WithoutPythonLock unlocked;
  // A forked child has no part in the groups of its parent.
  if (state_.load() == State::kOpen && pid_ == ::getpid()) {
    try {
      end(
          State::kShutDown, "CommDestroy", [this] { inner_.reset(); }, here());
    } catch (const std::exception& failure) {
      TORCH_WARN("sabot: destroying group ", member_.group, ": ", failure.what());
      if (state_.load() == State::kOpen) library().comm_close(key());
    }
  }
  inner_.reset();
}

void Proxy::check_usable(const char* title) const {
  const State state = state_.load();
  if (state == State::kOpen) [[likely]]
    return;
  const std::string rank = std::to_string(member_.rank);
  if (state == State::kAborted) {
    throw_backend_error("NCCL communicator was aborted on rank " + rank +
                        ". Original reason for "
                        "failure was: the application aborted it; " +
                        name_ + " cannot execute " + title);
  }
  throw_backend_error("The process group was destroyed on rank " + rank + "; " + name_ +
                      " cannot execute " + title);
}

WorkRef Proxy::execute(Announced& call, Execution execution) {
  return executed(call, [&] {
    WorkRef work = execution();
    if (!call.has_fired()) return work;
    if (is_coalescing_) {
      is_awaited_ = true;
    } else if (work) {
      work->wait();
    }
    return work;
  });
}

WorkRef Proxy::left_out(const char* title) const {
  auto work = c10::make_intrusive<SabotWork>(member_.rank, ::c10d::OpType::UNKNOWN, title, 0,
                                             c10::ArrayRef<at::Tensor>());
  work->end();
  return work;
}

WorkRef Proxy::run(const Operation& operation, Execution execution, Place place) {
  check_usable(operation.title);
  std::call_once(described_, [this] { hand_down(); });
  sabot_call_t announcement = call_of(operation.function, key());
  announcement.count = operation.extent.count;
  announcement.bytes = operation.extent.bytes;
  announcement.datatype = operation.extent.type;
  announcement.redop = operation.redop;
  announcement.root = operation.root;
  announcement.peer = operation.peer;
  announcement.send = operation.send;
  announcement.recv = operation.recv;
  // Of a coalesced group nobody knows when this one is complete.
  if (operation.is_plain && !is_coalescing_) announcement.memory = SABOT_MEMORY_HOST;
  Announced call(announcement, operation.style, place);
  WorkRef work;
  if (call.is_to_run()) work = execute(call, execution);
  if (!is_coalescing_) {
    call.leave();
    return call.is_to_run() ? work : left_out(operation.title);
  }
  try {
    call.leave();
  } catch (const std::exception&) {
    if (!postponed_) postponed_ = std::current_exception();
  }
  return work;
}

void Proxy::startCoalescing() {
  check_usable("a coalesced group");
  inner_->startCoalescing();
  is_coalescing_ = true;
}

// What the wrapped backend has collected cannot be taken back: an operation with a `before` fault
// was left out, the others are launched.
WorkRef Proxy::endCoalescing() {
  is_coalescing_ = false;
  const bool is_awaited = std::exchange(is_awaited_, false);
  const std::exception_ptr fault = std::exchange(postponed_, nullptr);
  WorkRef work = inner_->endCoalescing();
  if (!fault) return work;
  if (is_awaited && work) work->wait();
  std::rethrow_exception(fault);
}

void Proxy::end(State state, const char* function, c10::function_ref<void()> execution,
                Place place) {
  State expected = State::kOpen;
  if (!state_.compare_exchange_strong(expected, state)) {
    execution();  // again: what that means is the wrapped backend's affair
    return;
  }
  bool is_over = false;
  try {
    Announced call(call_of(function, key()), Style::kBackendError, place);
    if (call.is_to_run()) {
      executed(call, execution);
      is_over = true;
    }
    call.leave();
  } catch (const std::exception&) {
    // The layers keep a communicator whose end failed. This one is over if its backend is.
    if (is_over) {
      library().comm_close(key());
    } else {
      state_.store(State::kOpen);
    }
    throw;
  }
}

void Proxy::shutdown() {
  end(
      State::kShutDown, "CommDestroy",
      [this] { SABOT_FORWARD(*inner_, static_cast<void>(0), shutdown); }, here());
}

void Proxy::abort() {
  end(
      State::kAborted, "CommAbort", [this] { SABOT_FORWARD(*inner_, static_cast<void>(0), abort); },
      here());
}

}  // namespace sabot::pytorch::proxy
