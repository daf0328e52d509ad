// Opening and closing of the parts of a process's record.
#include "run/recorder.hpp"

#include "run/identity.hpp"
#include "run/run_folder.hpp"

namespace sabot::run {

using config::KnobId;

namespace {

ControlNames control_names(const RecorderOptions& options) {
  ControlNames names;
  names.switches = options.switches;
  for (std::size_t i = 0; i < options.faults.size(); ++i) {
    names.faults.push_back(options.faults[i].name);
    if (!options.faults[i].is_armed && i < kControlFaultsMax)
      names.armed &= ~(std::uint64_t{1} << i);
  }
  return names;
}

}  // namespace

RecorderOptions Recorder::options_from(const config::Snapshot& settings) {
  RecorderOptions options;
  options.run_folder = std::string(settings.get<KnobId::kRunFolder>());
  options.spans_hosts = settings.spans_hosts();
  return options;
}

Recorder::Recorder(const RecorderOptions& options) : tag_(process_tag()) {
  std::string refusal;
  if (!options.run_folder.empty()) {
    Result<RunFolder> joined = RunFolder::join(options.run_folder);
    if (joined.ok()) {
      folder_ = joined->path();
      refusal = unshared_folder_text(folder_, options.spans_hosts);
    } else {
      // Budgets of a folder that is not here must not be counted per process: they would not hold.
      refusal = joined.error().message();
      problems_.push_back(refusal);
    }
  } else if (options.spans_hosts) {
    refusal =
        "the job runs on several hosts and has no run folder, so nothing counts its budgets "
        "together; give a folder on a shared file system with --run-folder";
  }
  journal_.open(folder_, tag_, options.sink, options.sink_context);
  observation_.open(folder_, tag_);
  const Status opened =
      tally_.open(folder_, tag_,
                  {.fault_count = static_cast<std::uint32_t>(options.faults.size()),
                   .slot_bytes = options.slot_bytes,
                   .plan_hash = options.plan_hash});
  if (!opened.ok()) problems_.push_back(opened.error().message());
  const Status controlled = control_.open(folder_, control_names(options));
  if (!controlled.ok()) problems_.push_back(controlled.error().message());
  budget_.open(folder_);
  if (!refusal.empty()) budget_.refuse(refusal);
  for (const PlannedFault& fault : options.faults) {
    budget_.add(fault.name, fault.budget);
    limited_.push_back(fault.budget > 0);
  }
}

Result<Recorder::Claim> Recorder::claim(std::size_t fault_index) {
  if (forked_.load()) return Claim{};
  if (!limited_[fault_index]) return Claim{true, 0};
  const std::uint64_t number = SABOT_TRY(budget_.claim(fault_index));
  return Claim{number > 0, number};
}

Status Recorder::write_attach(const AttachRecord& record) const {
  if (folder_.empty() || forked_.load()) return {};
  return write_attach_record(folder_, tag_, record);
}

void Recorder::after_fork_child() noexcept {
  forked_.store(true);
  journal_.after_fork_child();
  observation_.after_fork_child();
  budget_.after_fork_child();
  tally_.after_fork_child();
  control_.after_fork_child();
}

}  // namespace sabot::run
