// From calls, holds and corruption plans to the driver's work on a stream.
//
// Who owns a cell of shared memory decides everything here. A gate's belongs to the hold's word,
// and the hold is kept by whoever still knows the stream to be on its way: the watch, or the graph.
// A save's belongs to the Undo, then to the list of those that a kernel has yet to finish with, or
// to the graph.
#include "layer/effects/cuda_effects.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "driver/driver.hpp"
#include "driver/gpu.hpp"
#include "driver/visit.hpp"
#include "layer/hold/hold_watch.hpp"

namespace sabot::layer {
namespace {

using driver::EditParameters;
using driver::GateCell;
using driver::SaveCell;

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are handles too, of no context in particular.
bool names_no_context(const void* stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 2; }

EditParameters edit_of(const CorruptionPlan& plan) {
  EditParameters edit;
  edit.buffer = reinterpret_cast<driver::Address>(plan.buffer);
  edit.count = plan.count;
  edit.element_bytes = static_cast<std::uint32_t>(bytes_of(plan.datatype));
  edit.type = static_cast<std::uint32_t>(plan.datatype);
  edit.factor = plan.factor;
  const bool is_scale = plan.operation == CorruptionPlan::Operation::kScale;
  edit.edit = is_scale ? driver::Edit::kScale : driver::Edit::kMask;
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    edit.index[i] = plan.places[i].element;
    edit.mask[i] = plan.places[i].mask;
    edit.flip[i] = plan.places[i].flip;
  }
  if (is_scale && edit.element_bytes == 1) {
    for (std::uint32_t code = 0; code < 256; ++code)
      edit.table[code] = static_cast<std::uint8_t>(scaled(plan.datatype, code, plan.factor));
  }
  return edit;
}

EditParameters restore_of(EditParameters edit, std::uint64_t kept) {
  edit.edit = driver::Edit::kRestore;
  for (std::uint32_t i = 0; i < edit.count; ++i) edit.mask[i] = kept >> i & 1U;
  return edit;
}

template <typename Owned>
void forget_owned(void* owned) {
  delete static_cast<Owned*>(owned);
}

// Keeps owned until the graph is gone.
template <typename Owned>
Status give_to_graph(driver::Driver& driver, driver::Graph graph, std::unique_ptr<Owned> owned) {
  SABOT_TRY(driver.at_end_of(graph, forget_owned<Owned>, owned.get()));
  static_cast<void>(owned.release());
  return {};
}

}  // namespace

// What outlives the effects for as long as a word, an Undo or a graph needs it.
struct CudaEffects::Core {
  std::unique_ptr<driver::Driver> driver;
  std::unique_ptr<driver::Gpus> gpus;
  std::mutex mutex;
  // Saves that a kernel may still write to, each with the word that says when it is through.
  std::vector<std::pair<SaveCell*, const std::atomic<std::uint32_t>*>> leaving;

  SaveCell* take_save() {
    const std::lock_guard lock(mutex);
    std::erase_if(leaving, [this](const auto& entry) {
      const bool is_through = entry.second->load() != 0;
      if (is_through) gpus->saves().give_back(entry.first);
      return is_through;
    });
    return gpus->saves().take();
  }
  void leave(SaveCell* cell, const std::atomic<std::uint32_t>& through) {
    const std::lock_guard lock(mutex);
    leaving.emplace_back(cell, &through);
  }
};

// This thread inside the stream's context.
struct CudaEffects::Arrived {
  std::shared_ptr<Core> core;
  driver::Visit visit;
  driver::Gpu* gpu;
  driver::Stream stream;
  driver::Graph graph;  // captured into, or null
};

// A cell, given back once no kernel will touch it: when through is set; at once where it is null,
// because no kernel was launched or the graph is gone.
struct CudaEffects::Save {
  std::shared_ptr<Core> core;
  SaveCell* cell;
  const std::atomic<std::uint32_t>* through = nullptr;

  Save(std::shared_ptr<Core> of, SaveCell* taken) : core(std::move(of)), cell(taken) {}
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;
  ~Save() {
    if (through == nullptr) {
      core->gpus->saves().give_back(cell);
    } else {
      core->leave(cell, *through);
    }
  }
};

class CudaEffects::CudaUndo final : public Undo {
 public:
  std::shared_ptr<Save> save;  // the graph has it too, if one is captured
  EditParameters restore;
  driver::Graph graph = nullptr;
};

CudaEffects::CudaEffects(Open open, DeviceOf device_of)
    : open_(std::move(open)), device_of_(std::move(device_of)) {}

CudaEffects::~CudaEffects() = default;

Result<std::shared_ptr<CudaEffects::Core>> CudaEffects::core() {
  const std::lock_guard lock(mutex_);
  if (core_ != nullptr) return core_;
  if (refusal_.empty()) {
    auto core = std::make_shared<Core>();
    Status opened = [&]() -> Status {
      core->driver = SABOT_TRY(open_());
      core->gpus = SABOT_TRY(driver::Gpus::create(*core->driver));
      return {};
    }();
    if (opened) return core_ = std::move(core);
    refusal_ = opened.error().message();
  }
  return Error(Code::kCuda, refusal_);
}

Status CudaEffects::prepare(int device) {
  const std::shared_ptr<Core> core = SABOT_TRY(this->core());
  const driver::Context context = SABOT_TRY(core->driver->primary_context(device));
  const driver::Visit visit = SABOT_TRY(driver::Visit::begin(*core->driver, context));
  driver::Gpu* gpu = SABOT_TRY(core->gpus->enter(context));
  const std::string& refusal = core->gpus->kernels(*gpu).refusal;
  if (!refusal.empty()) return Error(Code::kUnsupported, refusal);
  return {};
}

Result<CudaEffects::Arrived> CudaEffects::arrive(const abi::Call& call) {
  std::shared_ptr<Core> core = SABOT_TRY(this->core());
  driver::Driver& driver = *core->driver;
  auto* stream = const_cast<driver::Stream>(call.stream);
  driver::Context context = nullptr;
  if (names_no_context(stream)) {
    const int device = SABOT_TRY(device_of_(call.comm));
    context = SABOT_TRY(driver.primary_context(device));
  } else {
    context = SABOT_TRY(driver.context_of(stream));
  }
  driver::Visit visit = SABOT_TRY(driver::Visit::begin(driver, context));
  const driver::Capture capture = SABOT_TRY(driver.capture_of(stream));
  if (capture.state == driver::Capture::State::kInvalidated)
    return Error(Code::kInvalidUsage, "the stream's capture into a graph has failed already");
  driver::Gpu* gpu = SABOT_TRY(core->gpus->enter(context));
  return Arrived{std::move(core), std::move(visit), gpu, stream, capture.graph};
}

Result<Hold::Word> CudaEffects::make_word(const abi::Call&) {
  std::shared_ptr<Core> core = SABOT_TRY(this->core());
  GateCell* cell = core->gpus->gates().take();
  if (cell == nullptr)
    return Error(
        Code::kUnsupported,
        "streams wait at " + std::to_string(driver::Gpus::kGatesMax - 1) + " holds already");
  return Hold::Word(&cell->release,
                    [core = std::move(core), cell](auto*) { core->gpus->gates().give_back(cell); });
}

Status CudaEffects::hold(const abi::Call& call, std::shared_ptr<Hold> hold) {
  const Arrived at = SABOT_TRY(arrive(call));
  driver::Gpus& gpus = *at.core->gpus;
  if (!gpus.gates().contains(&hold->word()))
    return Error(Code::kInternal, "the hold's word is none that a GPU can read");
  static_assert(offsetof(GateCell, release) == 0);
  auto& cell = *reinterpret_cast<GateCell*>(&hold->word());
  if (at.graph != nullptr) {
    // Over when the graph is gone; until then the communicator's end can end it.
    struct Held {
      std::shared_ptr<Hold> hold;
      ~Held() { hold->set_over(); }
    };
    const std::uint64_t limit_ns = hold->limit_ns;
    SABOT_TRY(
        give_to_graph(gpus.driver(), at.graph, std::unique_ptr<Held>(new Held{std::move(hold)})));
    return driver::put_captured_gate(gpus, *at.gpu, at.stream, cell, limit_ns);
  }
  SABOT_TRY(watch_.expect());
  Result<driver::Limit> put = driver::put_gate(gpus, *at.gpu, at.stream, cell, hold->limit_ns);
  if (put.ok()) {
    watch_.add(std::move(hold), cell, *put == driver::Limit::kByGpu);
    return {};
  }
  watch_.cancel();
  if (hold->state() != Hold::kHeld) {
    const std::lock_guard lock(mutex_);
    stranded_.push_back(std::move(hold));
  }
  return std::move(put).error();
}

Result<std::unique_ptr<Undo>> CudaEffects::corrupt(const abi::Call& call,
                                                   const CorruptionPlan& plan) {
  const Arrived at = SABOT_TRY(arrive(call));
  driver::Gpus& gpus = *at.core->gpus;
  const EditParameters edit = edit_of(plan);
  if (plan.kept == 0) {
    SABOT_TRY(driver::put_edit(gpus, *at.gpu, at.stream, nullptr, edit));
    return std::unique_ptr<Undo>();
  }
  SaveCell* cell = at.core->take_save();
  if (cell == nullptr)
    return Error(Code::kUnsupported, "the old values of " +
                                         std::to_string(driver::Gpus::kSavesMax) +
                                         " corruptions are kept already");
  auto undo = std::make_unique<CudaUndo>();
  undo->save = std::make_shared<Save>(at.core, cell);
  undo->restore = restore_of(edit, plan.kept);
  undo->graph = at.graph;
  if (at.graph != nullptr)
    SABOT_TRY(give_to_graph(gpus.driver(), at.graph,
                            std::make_unique<std::shared_ptr<Save>>(undo->save)));
  SABOT_TRY(driver::put_edit(gpus, *at.gpu, at.stream, cell, edit));
  if (at.graph == nullptr) undo->save->through = &cell->changed;
  return std::unique_ptr<Undo>(std::move(undo));
}

Status CudaEffects::restore(const abi::Call& call, std::unique_ptr<Undo> undo) {
  const auto& kept = static_cast<const CudaUndo&>(*undo);
  const Arrived at = SABOT_TRY(arrive(call));
  if (at.graph != kept.graph)
    return Error(Code::kInvalidUsage,
                 "the stream is being captured into another graph than when its data was changed: "
                 "the old values are not put back");
  Save& save = *kept.save;
  SABOT_TRY(driver::put_edit(*at.core->gpus, *at.gpu, at.stream, save.cell, kept.restore));
  if (at.graph == nullptr) save.through = &save.cell->restored;
  return {};
}

// Asking changes nothing and is legal in every capture mode, so that it needs no visit.
Result<bool> CudaEffects::captured(const void* stream) {
  const std::shared_ptr<Core> core = SABOT_TRY(this->core());
  if (names_no_context(stream) && SABOT_TRY(core->driver->current_context()) == nullptr)
    return false;
  const driver::Capture capture =
      SABOT_TRY(core->driver->capture_of(const_cast<driver::Stream>(stream)));
  return capture.state != driver::Capture::State::kNone;
}

Result<CudaEffects::Usage> CudaEffects::usage() {
  const std::shared_ptr<Core> core = SABOT_TRY(this->core());
  return Usage{core->gpus->gates().free_count(), core->gpus->saves().free_count(),
               watch_.is_running()};
}

}  // namespace sabot::layer
