// Opening the stack: whose it is, which engine, which layers, and where the entries lead.
#include "stack/stack.hpp"

#include <pthread.h>

#include <mutex>

#include "base/log.hpp"
#include "driver/probe.hpp"
#include "layer/plan/armed_plan.hpp"
#include "real/loader.hpp"
#include "run/identity.hpp"
#include "scenario/tally.hpp"
#include "stack/bridge.hpp"
#include "stack/bypass.hpp"
#include "stack/entries.hpp"
#include "stack/layers.hpp"
#include "stack/owner.hpp"
#include "stack/product.hpp"
#include "stack/publication.hpp"

namespace sabot::stack {
namespace {

using config::KnobId;

std::once_flag opened;
thread_local bool opening = false;

void open_process() noexcept {
  try {
    real::Loader& loader = real::process_loader();
    const std::vector<real::MappedObject> objects = loader.mapped();
    if (const real::MappedObject* first = owner_among(objects, loader)) {
      set_refusal("the library of Sabot that was loaded first is older and lacks this function");
      forward_to(*first, loader);
      return;
    }
    new Stack(config::process());  // publishes itself; lives as long as the process
  } catch (...) {
    set_refusal("Sabot could not open its stack");
    log::line("opening the stack failed with an exception; every NCCL call is refused");
    publish_refusal();
  }
}

}  // namespace

std::atomic<Stack*> Stack::current_{nullptr};

bool Stack::open() noexcept {
  if (opening) return false;
  opening = true;
  std::call_once(opened, open_process);
  opening = false;
  return true;
}

Stack::Stack(const config::Snapshot& settings)
    : settings_(settings), boundary_(settings.world_rank().value_or(-1), settings.attempt()) {
  for (const config::Problem& problem : settings.problems()) log::line(problem.text);
  choose_engine();
  current_.store(this, std::memory_order_release);  // pairs with: current
  if (!failure_.empty()) {
    log::line(failure_);
    set_refusal(failure_.c_str());
    publish_refusal();
    return;
  }
  if (!settings.get<KnobId::kDisable>()) join_run();
  publish_entries();
  pthread_atfork(&Stack::before_fork, &Stack::after_fork_parent, &Stack::after_fork_child);
}

Stack::~Stack() = default;

// auto is real if and only if a libnccl is found and the driver counts at least one
// device.
void Stack::choose_engine() {
  const config::EngineChoice choice = settings_.get<KnobId::kEngine>();
  if (choice == config::EngineChoice::kHost) return open_host("asked for by SABOT_ENGINE");
  const Result<int> devices = driver::count_devices();
  if (choice == config::EngineChoice::kAuto && !devices.ok())
    return open_host(devices.error().message());
  const Status real = open_real();
  if (real.ok()) {
    engine_reason_ = choice == config::EngineChoice::kReal ? "asked for by SABOT_ENGINE"
                                                           : std::to_string(*devices) + " devices";
    return;
  }
  if (choice == config::EngineChoice::kAuto) return open_host(real.error().message());
  failure_ = real.error().message();
}

Status Stack::open_real() {
  real::SearchSettings search;
  search.real_nccl = settings_.get<KnobId::kRealNccl>();
  search.conda_prefix = settings_.get<KnobId::kCondaPrefix>();
  search.nccl_root = settings_.get<KnobId::kNcclRoot>();
  search.library_path = settings_.get<KnobId::kLdLibraryPath>();
  real_ = std::make_unique<RealEngine>(SABOT_TRY(real::open(real::process_loader(), search)));
  kind_ = EngineKind::kReal;
  engine_ = top_ = real_->api();
  if (const auto several = real_->library().several_copies_text()) log::line(*several);
  return {};
}

void Stack::open_host(std::string reason) {
  kind_ = EngineKind::kHost;
  engine_reason_ = std::move(reason);
  host_ = engine_ = top_ = host_engine(settings_);
}

void Stack::join_run() {
  Result<scenario::Scenario> scenario = load_scenario(settings_);
  if (!scenario.ok()) {
    log::line("no fault is armed: " + scenario.error().message());
    scenario = scenario::Scenario{};
  }
  run::RecorderOptions options = run::Recorder::options_from(settings_);
  options.plan_hash = plan_hash(*scenario);
  options.slot_bytes = sizeof(scenario::FaultTally);
  options.switches = scenario::switches_of(*scenario);
  for (const scenario::Fault& fault : scenario->faults)
    options.faults.push_back({fault.name, fault.budget, fault.is_armed});
  recorder_ = std::make_unique<run::Recorder>(options);
  for (const std::string& problem : recorder_->problems()) log::line(problem);
  page_.store(&recorder_->counters());
  const seams::Beneath beneath{engine_, real_.get(), &boundary_.registry()};
  layers_ = std::make_unique<Layers>(settings_, beneath, *scenario, *recorder_);
  top_ = layers_->top();
  write_attach_record(*scenario);
  if (!scenario->faults.empty() && !settings_.get<KnobId::kQuiet>()) say_armed(*scenario);
}

std::string Stack::engine_text() const {
  return kind_ == EngineKind::kReal ? "engine real (" + real_->library().text() + ")"
                                    : "engine host (" + engine_reason_ + ")";
}

void Stack::say_armed(const scenario::Scenario& scenario) const {
  const std::size_t count = scenario.faults.size();
  log::line("armed: " + std::to_string(count) + (count == 1 ? " fault of " : " faults of ") +
            layer::title_of(scenario) + ", process " + run::process_tag() + ", " + engine_text());
}

void Stack::write_attach_record(const scenario::Scenario& scenario) {
  run::AttachRecord record;
  record.way = product().way;
  record.engine = kind_ == EngineKind::kReal ? "real" : "host";
  record.reason = engine_reason_;
  record.rank = settings_.world_rank().value_or(-1);
  record.attempt = settings_.attempt();
  record.launcher = settings_.get<KnobId::kLauncher>();
  if (real_ != nullptr) {
    record.real_path = real_->chosen().copy->path();
    record.real_version = real::format_version(real_->chosen().copy->version());
    for (const real::Rejection& rejection : real_->library().rejected())
      record.rejected.push_back({rejection.path, rejection.reason});
  }
  for (const scenario::Fault& fault : scenario.faults) record.armed.push_back(fault.name);
  const Status written = recorder_->write_attach(record);
  if (!written.ok()) log::line(written.error().message());
}

void Stack::publish_entries() {
  const std::lock_guard lock(publishing_);
  publish_held();
}

void Stack::publish_held() {
  publish({.real = real_.get(),
           .is_bridged = layers_ != nullptr && (layers_->any() || recorder_->has_folder()),
           .is_following = layers_ != nullptr && is_following_,
           .has_beside = beside_.next.by_id[0] != nullptr});
}

void Stack::follow() {
  const std::lock_guard lock(publishing_);
  if (is_following_) return;
  if (real_ != nullptr) {
    host_ = host_engine(settings_);
    beside_.next = beside_.own = kHostDirect;
  }
  is_following_ = true;
  publish_held();
}

void Stack::before_creation() {
  if (real_ != nullptr && real_->look_again()) publish_entries();
}

// A child must not inherit a lock of a thread that it does not have.
void Stack::before_fork() noexcept {
  Stack* stack = current();
  if (stack == nullptr) return;
  stack->publishing_.lock();
  if (stack->layers_ != nullptr) stack->layers_->lock();
}

void Stack::after_fork_parent() noexcept {
  Stack* stack = current();
  if (stack == nullptr) return;
  if (stack->layers_ != nullptr) stack->layers_->unlock();
  stack->publishing_.unlock();
}

// A forked child inherits no communicator and does not act for its parent; once it has one of its
// own it joins the run as a process of its own (B19).
void Stack::after_fork_child() noexcept {
  after_fork_parent();
  Stack* stack = current();
  if (stack == nullptr || stack->recorder_ == nullptr) return;
  stack->boundary_.registry().forget_all();
  stack->recorder_->after_fork_child();
  stack->page_.store(&stack->recorder_->counters());
  stack->layers_->disarm();
  stack->forked_.store(true);
}

void Stack::prepare(const abi::Call& call, const call::Creation& creation) {
  if (call.lane != abi::Lane::kProcess || creation.where == nullptr) return;
  for (int i = 0; i < creation.count; ++i)
    if (creation.where[i] != nullptr) layers_->created(creation.where[i]);
}

void Stack::after_creation() {
  // relaxed: set by this very thread when it forked
  if (!forked_.load(std::memory_order_relaxed) || !forked_.exchange(false)) return;
  // The parent's objects stay as they are: other threads of this child may still be inside them.
  recorder_.release();
  layers_.release();
  join_run();
  publish_entries();
}

}  // namespace sabot::stack

namespace {

[[gnu::destructor]] void at_exit() {
  sabot::stack::report_bypass();
  sabot::stack::Stack* stack = sabot::stack::Stack::current();
  if (stack != nullptr && stack->layers() != nullptr) stack->layers()->flush();
}

}  // namespace

extern "C" void* sabot_first_use_target(unsigned index) noexcept {
  using namespace sabot;
  if (!stack::Stack::open()) return stack::kRefusing.by_id[index];
  // pairs with: publish
  return std::atomic_ref<void*>(sabot_entries[index]).load(std::memory_order_acquire);
}
