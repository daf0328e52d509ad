// Creating and joining run folders.
#include "run/run_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "run/identity.hpp"
#include "run/json_writer.hpp"
#include "run/text_file.hpp"

namespace sabot::run {
namespace {

using config::KnobId;

constexpr const char* kBase = "runs";
constexpr const char* kJobMark = "job";

Result<std::string> absolute(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  if (::realpath(path.c_str(), buffer.data()) == nullptr)
    return Error(Code::kSystem, "cannot resolve run folder '" + path + "': " + errno_text(errno));
  return std::string(buffer.data());
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// runs/latest → the folder's name. Whoever loses a race has a link to the other run: harmless.
void point_latest(const std::string& name) {
  const std::string temporary = std::string(kBase) + "/.latest." + std::to_string(::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(name.c_str(), temporary.c_str()) != 0) return;
  if (::rename(temporary.c_str(), (std::string(kBase) + "/latest").c_str()) != 0)
    ::unlink(temporary.c_str());
}

Status make_inside(const std::string& path) {
  for (const char* const part : {"attach", "journal", "budget", "tally"})
    SABOT_TRY(make_folders(path + "/" + part));
  return {};
}

Error with_advice(Error error) {
  return Error(error.code(),
               error.message() + "; name a folder that can be written with --run-folder");
}

// The first to come marks the folder with its job; true if a run was there before us.
Result<bool> claim_for(const std::string& path, const std::string& job) {
  const std::string mark = job.empty() ? process_tag() : job;
  if (SABOT_TRY(create_file_once(path + "/" + kJobMark, mark + "\n"))) return false;
  const std::string owner = SABOT_TRY(read_text_file("the mark of a run", path + "/" + kJobMark));
  if (!job.empty() && owner == job + "\n") return true;
  return Error(Code::kInvalidUsage,
               "run folder '" + path + "' already holds a run (of " +
                   owner.substr(0, owner.find('\n')) +
                   "), whose budgets and journal a second run would mix with its own; choose "
                   "another folder, remove it, or join it by SABOT_RUN_FOLDER instead of "
                   "--run-folder");
}

struct Place {
  std::string path;
  bool inherited = false;  // named by the environment: joining is meant
};

Place place_of(const config::Snapshot& settings) {
  const config::Value& named = settings.value(KnobId::kRunFolder);
  if (named.is_set) return {named.text, named.source == config::Source::kEnvironment};
  const std::string job = job_name(settings);
  return {std::string(kBase) + "/" + (job.empty() ? time_and_pid() : file_name_of(job)), false};
}

}  // namespace

// "2026-11-30T11-22-45-4242": sorts by time, in UTC, since a shell's time zone is not the
// cluster's.
std::string time_and_pid() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H-%M-%S-", &parts);
  return text.data() + std::to_string(::getpid());
}

std::string job_name(const config::Snapshot& settings) {
  const std::string slurm(settings.get<KnobId::kSlurmJobId>());
  const std::string step(settings.get<KnobId::kSlurmStepId>());
  // A batch script may hold several runs, one after the other: only a step is one run.
  if (!slurm.empty() && !step.empty()) return "slurm-" + slurm + "-" + step;
  if (!slurm.empty()) return "slurm-" + slurm + "-" + time_and_pid();
  const std::string pmix(settings.get<KnobId::kPmixNamespace>());
  return pmix.empty() ? "" : "pmix-" + pmix;
}

Result<RunFolder> RunFolder::prepare(const config::Snapshot& settings) {
  const Place place = place_of(settings);
  Status made = make_folders(place.path);
  if (made.ok()) made = make_inside(place.path);
  if (!made.ok()) return with_advice(std::move(made).error());
  const std::string path = SABOT_TRY(absolute(place.path));
  bool joined = place.inherited && exists(path + "/" + kJobMark);
  if (!joined) joined = SABOT_TRY(claim_for(path, job_name(settings)));
  const std::size_t slash = path.rfind('/');
  const Result<std::string> base = absolute(kBase);
  if (!joined && base.ok() && path.substr(0, slash) == *base) point_latest(path.substr(slash + 1));
  return RunFolder(path, joined);
}

Result<RunFolder> RunFolder::join(std::string_view path) {
  const std::string named(path);
  struct stat facts {};
  if (::stat(named.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
    return Error(Code::kNotFound, "run folder '" + named + "' does not exist on host " +
                                      host_name() +
                                      "; a run over several hosts needs a folder on a shared file "
                                      "system, given with --run-folder");
  SABOT_TRY(make_inside(named));
  if (::access(named.c_str(), W_OK) != 0)
    return Error(Code::kSystem, "cannot write to run folder '" + named + "': " + errno_text(errno));
  return RunFolder(SABOT_TRY(absolute(named)), true);
}

Result<std::string> RunFolder::keep_scenario(std::string_view text) const {
  const std::string path = file("scenario.toml");
  if (SABOT_TRY(create_file_once(path, text))) return path;
  const std::string kept = SABOT_TRY(read_text_file("scenario", path));
  if (kept == text) return path;
  return Error(Code::kInvalidUsage, "run folder '" + path_ +
                                        "' belongs to a run with another scenario; give this run a "
                                        "folder of its own with --run-folder");
}

Status write_config(const RunFolder& folder, const RunConfig& config) {
  if (exists(folder.file("config.json"))) return {};
  JsonWriter json(JsonWriter::Style::kIndented);
  json.begin_object();
  json.field("sabot", config.version).field("started_ns", now().epoch_ns);
  json.field("host", host_name()).field("launcher_pid", ::getpid());
  json.key("command").begin_array();
  for (const std::string& word : config.command) json.value(word);
  json.end_array();
  json.field("engine", config.engine).field("engine_reason", config.engine_reason);
  json.field("way", config.way).field("preload", config.preload);
  json.field("python", config.python).field("real_nccl", config.real_nccl);
  json.key("faults").begin_array();
  for (const std::string& fault : config.faults) json.value(fault);
  json.end_array();
  json.key("knobs").begin_array();
  if (config.settings != nullptr) {
    for (const config::Row& row : config.settings->rows()) {
      json.begin_object();
      json.field("name", row.name).field("value", row.value).field("source", row.source);
      json.end_object();
    }
  }
  json.end_array().end_object();
  return write_file(folder.file("config.json"), json.text() + "\n");
}

}  // namespace sabot::run
