// The folder that holds all that a run wrote: where it is, how it is made, how it is joined.
//
//   config.json          what was resolved, from which source, by which launcher
//   scenario.toml        a copy of the scenario, which the processes read
//   attach/HOST.PID.json one process each: way, engine, real library, why
//   journal/HOST.PID.jsonl   the faults that fired there
//   seen/HOST.PID.jsonl  what the application was told there: errors, lives of comms
//   budget/FAULT.N       the N-th firing of a fault was claimed
//   tally/HOST.PID       counters, mapped
//   launchers/HOST.PID   a `sabot run` at work here
//   control              the page by which `sabot ctl` reaches the processes, mapped
//   control.sock         where the launcher named in control.server takes its requests
//   added/N.toml         the scenarios that `sabot ctl add` brought
//
// A launcher creates or joins a folder by its request; a process under test only ever joins the one
// that its environment names. Nothing is deleted, ever. Errors name the folder and what to try.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "config/snapshot.hpp"

namespace sabot::run {

class RunFolder {
 public:
  // For a launcher: the folder of the command line, else that of the environment, else one named by
  // the Slurm or PMIx job under ./runs, else ./runs/TIME-PID; ./runs/latest is pointed at it. A
  // folder that holds another run is refused: a second run would find its budgets used up.
  static Result<RunFolder> prepare(const config::Snapshot& settings);

  // For a process under test: the folder must be there and writable.
  static Result<RunFolder> join(std::string_view path);

  const std::string& path() const { return path_; }  // absolute
  // Somebody else's run, as the environment or a common job says; false: this launcher made it.
  bool joined() const { return joined_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Keeps the scenario's text; kInvalidUsage if the run already has a different one.
  Result<std::string> keep_scenario(std::string_view text) const;

 private:
  RunFolder(std::string path, bool joined) : path_(std::move(path)), joined_(joined) {}

  std::string path_;
  bool joined_;
};

// What a launcher resolved, for config.json.
struct RunConfig {
  std::string version;               // of Sabot
  std::vector<std::string> command;  // the words after --
  std::string engine;
  std::string engine_reason;
  std::string way;
  std::string preload;              // the library put into LD_PRELOAD
  std::string python;               // the folder added to PYTHONPATH, "" = none
  std::string real_nccl;            // found by the launcher, "" = left to the process
  std::vector<std::string> faults;  // names of the faults planned
  const config::Snapshot* settings = nullptr;
};

// The first launcher of a run writes config.json; one that joins leaves it alone.
Status write_config(const RunFolder& folder, const RunConfig& config);

// The name of the job that this process belongs to, from Slurm or PMIx; "" = none.
std::string job_name(const config::Snapshot& settings);

// "2026-11-30T11-22-45-4242": the name of a folder that nobody else has.
std::string time_and_pid();

}  // namespace sabot::run
