// A machine made of tables: files, links, interpreters and a loader's cache, and a log of what was
// asked.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "launch/nccl_search.hpp"

namespace sabot::launch {

class FakeMachine final : public Machine {
 public:
  std::set<std::string> files;
  std::map<std::string, Links> links;
  std::map<std::string, std::string> interpreters;               // script → interpreter
  std::map<std::string, std::vector<std::string>> python_paths;  // interpreter → sys.path
  std::map<std::string, std::vector<std::string>> cache;         // name → paths
  std::map<std::string, std::string> programs;                   // word → program
  std::map<std::string, std::string> unreachable;                // library → why
  std::vector<std::string> pythons_asked;

  bool is_file(const std::string& path) override { return files.contains(path); }
  Links links_of(const std::string& path) override { return links[path]; }
  std::string interpreter_of(const std::string& program) override { return interpreters[program]; }
  std::vector<std::string> python_path(const std::string& interpreter) override {
    pythons_asked.push_back(interpreter);
    return python_paths[interpreter];
  }
  std::vector<std::string> cached_libraries(const std::string& name) override {
    return cache[name];
  }
  std::string program_of(const std::string& word) override { return programs[word]; }
  std::string unreachable_text(const std::string& path) override { return unreachable[path]; }
};

}  // namespace sabot::launch
