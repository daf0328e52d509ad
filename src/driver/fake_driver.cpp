// The application's side, the machine, and the guest's side of the fake driver.
#include "driver/fake_driver.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace sabot::driver {
namespace {

// Mapped memory lies elsewhere for the GPU, so that nobody gets along with the CPU's address.
constexpr Address kMappedBase = Address{0x5a} << 56;

}  // namespace

FakeDriver::FakeDriver(Options options) : options_(std::move(options)) {
  contexts_.resize(static_cast<std::size_t>(options_.device_count));
  queues_.resize(options_.queue_count);
}

FakeDriver::~FakeDriver() = default;

Status FakeDriver::enter(const char* function) {
  const auto failure = failures_.find(function);
  if (failure == failures_.end() || --failure->second.first > 0) return {};
  const Code code = failure->second.second;
  failures_.erase(failure);
  return Error(code, std::string(function) + " was told to fail");
}

FakeDriver::FakeContext* FakeDriver::current() const {
  const ThreadState& thread = here();
  return thread.contexts.empty() ? nullptr : thread.contexts.back();
}

// Null: no such stream, or the legacy stream without a context.
FakeDriver::FakeStream* FakeDriver::find(Stream stream) {
  if (stream == nullptr) {
    FakeContext* context = current();
    if (context == nullptr) return nullptr;
    FakeStream*& legacy = legacy_[context];
    if (legacy == nullptr) legacy = add_stream(context, true);
    return legacy;
  }
  for (const auto& known : streams_)
    if (known.get() == stream && !known->is_destroyed) return known.get();
  return nullptr;
}

FakeDriver::FakeStream* FakeDriver::add_stream(FakeContext* context, bool is_blocking) {
  auto stream = std::make_unique<FakeStream>();
  stream->context = context;
  stream->is_blocking = is_blocking;
  stream->queue = next_queue_++ % queues_.size();
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

Status FakeDriver::put_work(Stream stream, Work work) {
  FakeStream* target = find(stream);
  if (target == nullptr) return Error(Code::kCuda, "invalid stream handle");
  if (target->context != current()) return Error(Code::kCuda, "stream of another context");
  if (target->capture == Capture::State::kInvalidated)
    return Error(Code::kInvalidUsage, "the capture was invalidated");
  if (target->capture == Capture::State::kActive) {
    target->graph->nodes.push_back(std::move(work));
  } else {
    queues_[target->queue].push_back({target, work()});
  }
  return {};
}

// What may wait for the GPU or is no work on a stream: it ends captures, as in CUDA.
Status FakeDriver::refuse_in_capture(const char* function) {
  if (here().mode == CaptureMode::kRelaxed) return {};
  bool has_refused = false;
  for (const auto& stream : streams_) {
    const bool is_active = stream->capture == Capture::State::kActive;
    const bool is_ours = stream->captured_by == std::this_thread::get_id();
    const bool forbids = stream->mode == CaptureMode::kGlobal ||
                         (stream->mode == CaptureMode::kThreadLocal && is_ours);
    if (!is_active || !forbids) continue;
    stream->capture = Capture::State::kInvalidated;
    has_refused = true;
  }
  if (!has_refused) return {};
  return Error(Code::kInvalidUsage, std::string(function) + " while a stream is being captured");
}

Reach FakeDriver::reach_of(FakeContext* context) {
  return Reach{[this, context](Address address) -> void* {
                 auto* host = reinterpret_cast<std::byte*>(address - kMappedBase);
                 for (const auto& [first, bytes] : context->mapped)
                   if (address >= kMappedBase && host >= first && host < first + bytes) return host;
                 ++illegal_count_;
                 return nullptr;
               },
               options_.scale};
}

// --- What an application does --------------------------------------------------------------------

Context FakeDriver::activate(int device) {
  const std::lock_guard lock(mutex_);
  auto& context = contexts_.at(static_cast<std::size_t>(device));
  if (context == nullptr) {
    context = std::make_unique<FakeContext>();
    context->device = device;
  }
  return context.get();
}

Stream FakeDriver::make_stream(Context context, bool is_blocking) {
  const std::lock_guard lock(mutex_);
  return add_stream(static_cast<FakeContext*>(context), is_blocking);
}

void FakeDriver::put(Stream stream, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  FakeStream* target = find(stream);
  SABOT_ASSERT(target != nullptr);
  const Work node = [work = std::move(work)]() -> Step {
    return [work](std::uint64_t) {
      work();
      return true;
    };
  };
  if (target->capture == Capture::State::kActive) {
    target->graph->nodes.push_back(node);
  } else {
    queues_[target->queue].push_back({target, node()});
  }
}

void FakeDriver::begin_capture(Stream stream, CaptureMode mode) {
  const std::lock_guard lock(mutex_);
  FakeStream* target = find(stream);
  SABOT_ASSERT(target != nullptr);
  target->capture = Capture::State::kActive;
  target->mode = mode;
  target->captured_by = std::this_thread::get_id();
  target->graph = std::make_unique<FakeGraph>();
}

Graph FakeDriver::end_capture(Stream stream) {
  Graph graph = nullptr;
  bool is_valid = false;
  {
    const std::lock_guard lock(mutex_);
    FakeStream* target = find(stream);
    SABOT_ASSERT(target != nullptr);
    is_valid = target->capture == Capture::State::kActive;
    target->capture = Capture::State::kNone;
    graphs_.push_back(std::move(target->graph));
    graph = graphs_.back().get();
  }
  if (is_valid) return graph;
  destroy(graph);
  return nullptr;
}

void FakeDriver::replay(Graph graph, Stream stream) {
  const std::lock_guard lock(mutex_);
  FakeStream* target = find(stream);
  SABOT_ASSERT(target != nullptr);
  for (const Work& node : static_cast<FakeGraph*>(graph)->nodes)
    queues_[target->queue].push_back({target, node()});
}

void FakeDriver::destroy(Graph graph) {
  std::vector<std::pair<void (*)(void*), void*>> ends;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(graphs_.begin(), graphs_.end(),
                                    [graph](const auto& known) { return known.get() == graph; });
    SABOT_ASSERT(found != graphs_.end());
    ends = std::move((*found)->ends);
    graphs_.erase(found);
  }
  for (const auto& [end, user] : ends) end(user);
}

// --- The machine ---------------------------------------------------------------------------------

void FakeDriver::run() {
  const std::lock_guard lock(mutex_);
  run_locked();
}

void FakeDriver::run_locked() {
  bool has_moved = true;
  while (has_moved) {
    has_moved = false;
    for (auto& queue : queues_) {
      while (!queue.empty() && queue.front().step(now_ns_)) {
        queue.pop_front();
        has_moved = true;
      }
    }
  }
}

void FakeDriver::advance(std::uint64_t ns) {
  const std::lock_guard lock(mutex_);
  now_ns_ += ns;
  run_locked();
}

bool FakeDriver::is_idle(Stream stream) const {
  const std::lock_guard lock(mutex_);
  for (const auto& queue : queues_)
    for (const Task& task : queue)
      if (task.stream == stream) return false;
  return true;
}

void FakeDriver::fail(const std::string& function, Code code, int nth) {
  const std::lock_guard lock(mutex_);
  failures_[function] = {nth, code};
}

std::size_t FakeDriver::context_depth() const {
  const std::lock_guard lock(mutex_);
  return here().contexts.size();
}
CaptureMode FakeDriver::capture_mode() const {
  const std::lock_guard lock(mutex_);
  return here().mode;
}
std::size_t FakeDriver::illegal_count() const {
  const std::lock_guard lock(mutex_);
  return illegal_count_;
}
std::size_t FakeDriver::stream_count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      streams_.begin(), streams_.end(), [](const auto& stream) { return !stream->is_destroyed; }));
}
std::size_t FakeDriver::load_count() const {
  const std::lock_guard lock(mutex_);
  return load_count_;
}

// --- The seam ------------------------------------------------------------------------------------

Result<Context> FakeDriver::primary_context(int device) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("primary_context"));
  if (device < 0 || device >= options_.device_count)
    return Error(Code::kCuda, "invalid device ordinal");
  FakeContext* context = contexts_[static_cast<std::size_t>(device)].get();
  if (context == nullptr)
    return Error(Code::kInvalidUsage,
                 "the primary context of device " + std::to_string(device) + " is not active");
  return Context{context};
}

Result<Context> FakeDriver::context_of(Stream stream) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("context_of"));
  const FakeStream* known = find(stream);
  if (known == nullptr) return Error(Code::kCuda, "invalid stream handle");
  return Context{known->context};
}

Result<Context> FakeDriver::current_context() {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("current_context"));
  return Context{current()};
}

Status FakeDriver::push(Context context) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("push"));
  here().contexts.push_back(static_cast<FakeContext*>(context));
  return {};
}

Status FakeDriver::pop() {
  const std::lock_guard lock(mutex_);
  if (here().contexts.empty()) return Error(Code::kCuda, "no context to pop");
  here().contexts.pop_back();
  return {};
}

Result<CaptureMode> FakeDriver::exchange_capture_mode(CaptureMode mode) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("exchange_capture_mode"));
  return std::exchange(here().mode, mode);
}

Result<Capture> FakeDriver::capture_of(Stream stream) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("capture_of"));
  FakeStream* target = find(stream);
  if (target == nullptr) return Error(Code::kCuda, "invalid context");
  const bool is_implicit =
      stream == nullptr && std::any_of(streams_.begin(), streams_.end(), [&](const auto& other) {
        return other->is_blocking && other->context == target->context &&
               other->capture == Capture::State::kActive;
      });
  if (is_implicit) return Error(Code::kInvalidUsage, "a stream that waits for it is captured");
  const bool is_active = target->capture == Capture::State::kActive;
  return Capture{target->capture, is_active ? target->graph.get() : nullptr};
}

Status FakeDriver::at_end_of(Graph graph, void (*end)(void*), void* user) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("at_end_of"));
  static_cast<FakeGraph*>(graph)->ends.emplace_back(end, user);
  return {};
}

Result<Address> FakeDriver::map_host(void* pages, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("map_host"));
  SABOT_TRY(refuse_in_capture("map_host"));
  if (current() == nullptr) return Error(Code::kCuda, "no current context");
  current()->mapped[static_cast<const std::byte*>(pages)] = bytes;
  return kMappedBase + reinterpret_cast<Address>(pages);
}

Status FakeDriver::unmap_host(void* pages) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("unmap_host"));
  for (const auto& context : contexts_)
    if (context != nullptr) context->mapped.erase(static_cast<const std::byte*>(pages));
  return {};
}

Status FakeDriver::wait_value(Stream stream, Address word, std::uint32_t value) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("wait_value"));
  if (!options_.has_memory_operations)
    return Error(Code::kUnsupported, "no stream memory operations");
  const Reach reach = reach_of(current());
  return put_work(stream, [=]() -> Step {
    return [=](std::uint64_t) {
      const auto* at = static_cast<const std::atomic<std::uint32_t>*>(reach.host(word));
      return at == nullptr || static_cast<std::int32_t>(at->load() - value) >= 0;
    };
  });
}

Status FakeDriver::write_value(Stream stream, Address word, std::uint32_t value) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("write_value"));
  if (!options_.has_memory_operations)
    return Error(Code::kUnsupported, "no stream memory operations");
  const Reach reach = reach_of(current());
  return put_work(stream, [=]() -> Step {
    return [=](std::uint64_t) {
      auto* at = static_cast<std::atomic<std::uint32_t>*>(reach.host(word));
      if (at != nullptr) at->store(value);
      return true;
    };
  });
}

Result<Module> FakeDriver::load(const char* ptx) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("load"));
  SABOT_TRY(refuse_in_capture("load"));
  if (current() == nullptr) return Error(Code::kCuda, "no current context");
  ++load_count_;
  modules_.push_back(std::make_unique<FakeModule>(FakeModule{current(), ptx}));
  return Module{modules_.back().get()};
}

Result<Kernel> FakeDriver::kernel(Module module, const char* name) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("kernel"));
  const auto* loaded = static_cast<const FakeModule*>(module);
  if (loaded->ptx.find(".entry " + std::string(name) + "(") == std::string::npos)
    return Error(Code::kCuda, "the module has no such kernel");
  const bool is_spin = std::strcmp(name, kSpinName) == 0;
  kernels_.push_back(std::make_unique<FakeKernel>(FakeKernel{loaded->context, is_spin}));
  return Kernel{kernels_.back().get()};
}

Status FakeDriver::launch(Kernel kernel, unsigned threads, Stream stream,
                          std::span<const std::byte> parameters) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("launch"));
  const auto* known = static_cast<const FakeKernel*>(kernel);
  if (known->context != current()) return Error(Code::kCuda, "kernel of another context");
  const Reach reach = reach_of(current());
  if (known->is_spin) {
    SpinParameters spin;
    if (parameters.size() != sizeof(spin) || threads != kSpinThreads)
      return Error(Code::kCuda, "no launch of this kernel");
    std::memcpy(&spin, parameters.data(), sizeof(spin));
    return put_work(stream, [=] { return fake_spin(spin, reach); });
  }
  EditParameters edit;
  if (parameters.size() != sizeof(edit) || threads != kEditThreads)
    return Error(Code::kCuda, "no launch of this kernel");
  std::memcpy(&edit, parameters.data(), sizeof(edit));
  return put_work(stream, [=] { return fake_edit(edit, reach); });
}

Result<Stream> FakeDriver::create_stream() {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("create_stream"));
  SABOT_TRY(refuse_in_capture("create_stream"));
  if (current() == nullptr) return Error(Code::kCuda, "no current context");
  return Stream{add_stream(current(), false)};
}

// As in CUDA, what is on it is done all the same.
Status FakeDriver::destroy_stream(Stream stream) {
  const std::lock_guard lock(mutex_);
  SABOT_TRY(enter("destroy_stream"));
  FakeStream* known = find(stream);
  if (known == nullptr) return Error(Code::kCuda, "invalid stream handle");
  known->is_destroyed = true;
  return {};
}

}  // namespace sabot::driver
