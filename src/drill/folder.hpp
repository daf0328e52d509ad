// The folder of a drill: where everything is, and what tells a finished case from an interrupted
// one.
//
//   plan.toml, plan.json      the plan as it was, and what the command line made of it
//   baseline/, cases/NNN/     one case each:
//     scenario.toml           its faults and expectation
//     run/                    the run folder of its `sabot run`
//     output.log, check.log   what the command and the check printed
//     stacks/PID.txt          where the threads of a hung job were
//     work/                   for files of the command: {work}
//     ending.json             written last: with it the case is finished
//
// A case is judged from its folder alone, so that finished cases need nothing but that. Nothing is
// deleted: what an interrupted case left is moved aside.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "drill/keep/ending.hpp"
#include "drill/result.hpp"

namespace sabot::drill {

class CaseFolder {
 public:
  explicit CaseFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string scenario() const { return path_ + "/scenario.toml"; }
  std::string run() const { return path_ + "/run"; }
  std::string output() const { return path_ + "/output.log"; }
  std::string check_output() const { return path_ + "/check.log"; }
  std::string work() const { return path_ + "/work"; }
  std::string calls() const { return path_ + "/calls"; }

  // Makes it anew; what an interrupted run left there is moved to a name of its own.
  Status prepare() const;
  // What was finish()ed, if it was.
  struct Finished {
    Ending ending;
    Check check;
  };
  std::optional<Finished> finished() const;
  Status finish(const Finished& finished) const;

 private:
  std::string path_;
};

class DrillFolder {
 public:
  // Makes a folder for a new drill, or opens that of an interrupted one. path = "": a name made of
  // the time below ./runs, or, to resume, the last such. kInvalidUsage: there is a drill already,
  // or none to resume.
  static Result<DrillFolder> prepare(const std::string& path, bool resume);

  const std::string& path() const { return path_; }
  CaseFolder baseline() const { return CaseFolder(path_ + "/baseline"); }
  CaseFolder numbered(std::size_t index) const;

  // Keeps the plan and what identifies this drill, or, to resume, compares with what was kept.
  Status keep_plan(std::string_view plan_text, std::string_view identity) const;

 private:
  DrillFolder(std::string path, bool is_resumed)
      : path_(std::move(path)), is_resumed_(is_resumed) {}

  std::string path_;  // absolute
  bool is_resumed_;
};

}  // namespace sabot::drill
