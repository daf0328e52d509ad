// Preparing contexts, and the few calls of the driver that make up a gate or an edit.
#include "driver/gpu.hpp"

#include <utility>

namespace sabot::driver {
namespace {

template <typename Parameters>
std::span<const std::byte> bytes_of(const Parameters& parameters) {
  return std::as_bytes(std::span(&parameters, 1));
}

Error no_kernels(const Kernels& kernels) {
  return Error(Code::kUnsupported, "this GPU runs no kernel of ours: " + kernels.refusal);
}

SpinParameters spin_at(Gpus& gpus, const Gpu& gpu, GateCell& cell, std::uint64_t limit_ns) {
  SpinParameters spin;
  spin.release = gpu.gates + gpus.gates().offset_of(&cell.release);
  spin.arrival = gpu.gates + gpus.gates().offset_of(&cell.arrival);
  spin.departure = gpu.gates + gpus.gates().offset_of(&cell.departure);
  spin.limit_ns = limit_ns;
  return spin;
}

Status launch_spin(Gpus& gpus, Gpu& gpu, Stream stream, const SpinParameters& spin) {
  const Kernels& kernels = gpus.kernels(gpu);
  if (kernels.spin == nullptr) return no_kernels(kernels);
  return gpus.driver().launch(kernels.spin, kSpinThreads, stream, bytes_of(spin));
}

}  // namespace

Result<std::unique_ptr<Gpus>> Gpus::create(Driver& driver) {
  auto gates = SABOT_TRY(Pages<GateCell>::create(kGatesMax));
  auto saves = SABOT_TRY(Pages<SaveCell>::create(kSavesMax));
  return std::unique_ptr<Gpus>(new Gpus(driver, std::move(gates), std::move(saves)));
}

Gpus::Gpus(Driver& driver, std::unique_ptr<Pages<GateCell>> gates,
           std::unique_ptr<Pages<SaveCell>> saves)
    : driver_(driver),
      gates_(std::move(gates)),
      saves_(std::move(saves)),
      open_gate_(gates_->take()) {
  open_gate_->release.store(1);
}

Gpu* Gpus::find(Context context) const {
  for (const auto& entry : known_) {
    Gpu* gpu = entry.load();
    if (gpu == nullptr || gpu->context == context) return gpu;
  }
  return nullptr;
}

Result<Gpu*> Gpus::enter(Context context) {
  if (Gpu* gpu = find(context)) return gpu;
  const std::lock_guard lock(preparing_);
  if (Gpu* gpu = find(context)) return gpu;
  if (gpus_.size() == kContextsMax)
    return Error(Code::kUnsupported, "faults act in at most " + std::to_string(kContextsMax) +
                                         " contexts of a process");
  auto gpu = std::make_unique<Gpu>();
  gpu->context = context;
  gpu->gates = SABOT_TRY(gates_->map(driver_));
  gpu->saves = SABOT_TRY(saves_->map(driver_));
  Gpu* entered = gpu.get();
  known_[gpus_.size()].store(entered);
  gpus_.push_back(std::move(gpu));
  return entered;
}

// A refusal is kept like the kernels: what cannot be loaded is not tried at every fault.
const Kernels& Gpus::kernels(Gpu& gpu) {
  if (const Kernels* known = gpu.kernels.load()) return *known;
  const std::lock_guard lock(preparing_);
  if (const Kernels* known = gpu.kernels.load()) return *known;
  kernels_.push_back(std::make_unique<Kernels>());
  Kernels& made = *kernels_.back();
  if (Status loaded = load(gpu, made); !loaded) {
    made.spin = made.edit = nullptr;
    made.refusal = loaded.error().message();
  }
  gpu.kernels.store(&made);
  return made;
}

Status Gpus::load(const Gpu& gpu, Kernels& kernels) {
  const Module module = SABOT_TRY(driver_.load(kKernelsPtx));
  kernels.spin = SABOT_TRY(driver_.kernel(module, kSpinName));
  kernels.edit = SABOT_TRY(driver_.kernel(module, kEditName));
  return warm_up(gpu, kernels);
}

// With lazy loading a kernel's code only comes with its first launch. Nobody waits for the end of
// these two: the launch is what loads.
Status Gpus::warm_up(const Gpu& gpu, const Kernels& kernels) {
  const Stream stream = SABOT_TRY(driver_.create_stream());
  const SpinParameters spin = spin_at(*this, gpu, *open_gate_, 0);
  const EditParameters edit;
  Status launched = driver_.launch(kernels.spin, kSpinThreads, stream, bytes_of(spin));
  if (launched) launched = driver_.launch(kernels.edit, kEditThreads, stream, bytes_of(edit));
  Status destroyed = driver_.destroy_stream(stream);
  if (!launched) return launched;
  return destroyed;
}

// The wait is made known to the CPU from both sides: the limit counts from the arrival, and the
// cell is used again only after the departure.
Result<Limit> put_gate(Gpus& gpus, Gpu& gpu, Stream stream, GateCell& cell,
                       std::uint64_t limit_ns) {
  Driver& driver = gpus.driver();
  const SpinParameters spin = spin_at(gpus, gpu, cell, limit_ns);
  if (Status written = driver.write_value(stream, spin.arrival, 1); !written) {
    if (written.error().code() != Code::kUnsupported) return std::move(written).error();
    SABOT_TRY(launch_spin(gpus, gpu, stream, spin));
    return Limit::kByGpu;
  }
  Status waited = driver.wait_value(stream, spin.release, 1);
  if (waited) waited = driver.write_value(stream, spin.departure, 1);
  if (!waited) {
    cell.release.store(1);
    return std::move(waited).error();
  }
  return Limit::kByCpu;
}

Status put_captured_gate(Gpus& gpus, Gpu& gpu, Stream stream, GateCell& cell,
                         std::uint64_t limit_ns) {
  SpinParameters spin = spin_at(gpus, gpu, cell, limit_ns);
  spin.arrival = spin.departure = 0;
  return launch_spin(gpus, gpu, stream, spin);
}

Status put_edit(Gpus& gpus, Gpu& gpu, Stream stream, SaveCell* cell, EditParameters parameters) {
  const Kernels& kernels = gpus.kernels(gpu);
  if (kernels.edit == nullptr) return no_kernels(kernels);
  if (cell != nullptr) {
    const bool is_restore = parameters.edit == Edit::kRestore;
    const auto* done = is_restore ? &cell->restored : &cell->changed;
    parameters.saved = gpu.saves + gpus.saves().offset_of(cell->saved.data());
    parameters.done = gpu.saves + gpus.saves().offset_of(done);
  }
  return gpus.driver().launch(kernels.edit, kEditThreads, stream, bytes_of(parameters));
}

}  // namespace sabot::driver
