// Whether the command will find a libnccl, and where: asked before the command runs.
//
// The processes decide for themselves at their first call (src/real), with the loader's own
// knowledge; the launcher only has to predict whether there will be one, in order to choose an
// engine and to say why. It looks where such programs get it from: what the program is linked to,
// the packages of the Python interpreter it runs under, conda, NCCL_ROOT, LD_LIBRARY_PATH and the
// loader's cache. What it asks of the machine goes through a seam, so that the rules are tested
// without one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace sabot::launch {

class Machine {
 public:
  virtual ~Machine() = default;
  virtual bool is_file(const std::string& path) = 0;
  // DT_NEEDED, DT_RPATH and DT_RUNPATH of a program or library; all empty if it is none.
  struct Links {
    std::vector<std::string> needed = {};
    std::string rpath = {};
    std::string runpath = {};
  };
  virtual Links links_of(const std::string& path) = 0;
  virtual std::string interpreter_of(const std::string& program) = 0;
  // sys.path of a Python interpreter, asked of the interpreter; empty if it does not answer in
  // time.
  virtual std::vector<std::string> python_path(const std::string& interpreter) = 0;
  // Files of this name in the loader's cache.
  virtual std::vector<std::string> cached_libraries(const std::string& name) = 0;
  // Where a word of the command is as a program, "" = it is none.
  virtual std::string program_of(const std::string& word) = 0;
  // Why calls of NCCL inside this library can never be reached, "" = they can.
  virtual std::string unreachable_text(const std::string& path) = 0;
};

struct NcclRequest {
  std::vector<std::string> words = {};  // of the command
  std::string real_nccl = {};           // SABOT_REAL_NCCL
  std::string conda_prefix = {};
  std::string nccl_root = {};
  std::string library_path = {};  // LD_LIBRARY_PATH
};

struct NcclFinding {
  std::string path = {};  // "" = none
  std::string how = {};   // "linked by ./train", "in the Python packages of /usr/bin/python3", …
  // Set where a torch with NCCL linked into it statically was found instead: nothing can reach its
  // calls.
  std::string unreachable = {};
  std::vector<std::string> searched = {};  // one clause a place without one
};

// kInvalidArgument: real_nccl names a file that is not there.
Result<NcclFinding> search_nccl(Machine& machine, const NcclRequest& request);

// "searched: …", for messages.
std::string searched_text(const NcclFinding& finding);

// The real one. path is the PATH of the command.
class HostMachine final : public Machine {
 public:
  explicit HostMachine(std::string path) : path_(std::move(path)) {}
  bool is_file(const std::string& path) override;
  Links links_of(const std::string& path) override;
  std::string interpreter_of(const std::string& program) override;
  std::vector<std::string> python_path(const std::string& interpreter) override;
  std::vector<std::string> cached_libraries(const std::string& name) override;
  std::string program_of(const std::string& word) override;
  std::string unreachable_text(const std::string& path) override;

 private:
  std::string path_;
};

}  // namespace sabot::launch
