// Reading the scenario and putting the layers over the engine.
#include "stack/layers.hpp"

#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "layer/plan/armed_plan.hpp"
#include "run/text_file.hpp"
#include "scenario/decidable.hpp"
#include "scenario/parse.hpp"
#include "scenario/print.hpp"

namespace sabot::stack {
namespace {

using config::KnobId;

layer::LogLevel level_of(config::LogChoice choice) {
  switch (choice) {
    case config::LogChoice::kOff: return layer::LogLevel::kOff;
    case config::LogChoice::kErrors: return layer::LogLevel::kErrors;
    case config::LogChoice::kCalls: return layer::LogLevel::kCalls;
    case config::LogChoice::kAll: return layer::LogLevel::kAll;
  }
  return layer::LogLevel::kOff;
}

// A document has a line that begins with `sabot =` or `[[`; a line of the short form cannot.
bool is_document(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  for (std::string_view line : split(text, '\n')) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (line.substr(0, 2) == "[[") return true;
    if (line.substr(0, 5) != "sabot") continue;
    const std::size_t next = line.find_first_not_of(kBlanks, 5);
    if (next != line.npos && line[next] == '=') return true;
  }
  return false;
}

}  // namespace

Result<scenario::Scenario> read_injection(const config::Snapshot& settings, std::string_view text) {
  constexpr std::string_view kOrigin = "the injection";
  scenario::Scenario read = SABOT_TRY(is_document(text) ? scenario::parse_toml(text, kOrigin)
                                                        : scenario::parse_line(text, kOrigin));
  SABOT_TRY(scenario::check_decidable(read));
  if (settings.is_set(KnobId::kSeed)) read.seed = settings.get<KnobId::kSeed>();
  return read;
}

Result<scenario::Scenario> load_scenario(const config::Snapshot& settings) {
  scenario::Scenario all;
  if (settings.is_set(KnobId::kScenario)) {
    const std::string path(settings.get<KnobId::kScenario>());
    const std::string text = SABOT_TRY(run::read_text_file("scenario", path));
    all = SABOT_TRY(scenario::parse_toml(text, path));
  }
  if (settings.is_set(KnobId::kFault)) {
    scenario::Scenario line =
        SABOT_TRY(scenario::parse_line(settings.get<KnobId::kFault>(), "SABOT_FAULT"));
    SABOT_TRY(scenario::append_faults(all, std::move(line), "SABOT_FAULT"));
  }
  SABOT_TRY(scenario::check_decidable(all));
  if (settings.is_set(KnobId::kSeed)) all.seed = settings.get<KnobId::kSeed>();
  return all;
}

std::uint64_t plan_hash(const scenario::Scenario& scenario) {
  std::uint64_t hash = mix(scenario.seed);
  for (const scenario::Fault& fault : scenario.faults)
    hash = mix(hash, hash_text(scenario::to_line(fault)));
  return hash;
}

Layers::Layers(const config::Snapshot& settings, const seams::Beneath& beneath,
               const scenario::Scenario& scenario, run::Recorder& recorder)
    : settings_(settings), recorder_(recorder), top_(beneath.engine) {
  if (!scenario.faults.empty()) {
    ledger_ = std::make_unique<layer::RunLedger>(recorder);
    const layer::PlanSource source{layer::title_of(scenario), 0, &recorder.control()};
    scenario_plan_ = std::make_unique<layer::ArmedPlan>(scenario, source, *ledger_,
                                                        recorder.slots<scenario::FaultTally>());
  }
  plans_ = std::make_unique<layer::PlanList>(scenario_plan_.get());
  engines_ = std::make_unique<seams::EngineSeams>(beneath, scenario);
  layer::FaultSeams seams = engines_->seams();
  seams.control = &recorder.control();
  seams.on_news = [this] { load_added(); };
  fault_ = std::make_unique<layer::FaultLayer>(top_, *plans_, seams);
  top_ = fault_->api();
  layer::LogOptions log;
  log.level = level_of(settings.get<KnobId::kLog>());
  log.file = settings.get<KnobId::kLogFile>();
  log.lines_per_second = settings.get<KnobId::kLogRate>();
  if (log.level == layer::LogLevel::kOff) return;
  log_ = std::make_unique<layer::LogLayer>(top_, log);
  top_ = log_->api();
}

// What `sabot ctl add` gave to the run. Its faults count their own budgets in the run folder; a
// file that cannot be read was refused by the server that added it, so it is reported once.
void Layers::load_added() {
  const std::lock_guard lock(loading_);
  const std::uint32_t added = recorder_.control().added();
  while (loaded_ < added) {
    const std::uint32_t number = ++loaded_;
    const std::string path = recorder_.folder() + "/added/" + std::to_string(number) + ".toml";
    Result<std::string> text = run::read_text_file("scenario", path);
    Result<scenario::Scenario> read =
        text.ok() ? scenario::parse_toml(*text, path) : Result<scenario::Scenario>(text.error());
    if (!read.ok()) {
      log::line(read.error().message());
      continue;
    }
    plans_->add(std::make_shared<layer::Injection>(number, *read, recorder_));
  }
}

layer::FaultLayer::Begun Layers::announced(abi::Call& call) {
  if (log_ != nullptr) log_->entered(call, [](layer::Line&) {});
  return fault_->begin(call);
}

ncclResult_t Layers::concluded(abi::Call& call, layer::FaultLayer::Begun& begun,
                               ncclResult_t result) {
  result = fault_->end(call, begun, result);
  if (log_ != nullptr) log_->left(call, result);
  return result;
}

void Layers::closed(const void* comm) {
  fault_->begin_end(comm, layer::Ending::kAbort);
  fault_->holds().ended(comm);
}

void Layers::created(const void* comm) {
  if (scenario_plan_ != nullptr && scenario_plan_->acts_on_streams()) engines_->prepare(comm);
}

void Layers::lock() {
  plans_->lock();
  fault_->holds().lock();
}

void Layers::unlock() {
  fault_->holds().unlock();
  plans_->unlock();
}

void Layers::disarm() noexcept {
  plans_->disarm();
  fault_->holds().forget();
  layer::LinkRules::process().forget();
}

void Layers::flush() {
  if (scenario_plan_ != nullptr) scenario_plan_->decider().flush();
}

}  // namespace sabot::stack
