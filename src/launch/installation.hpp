// The tree that this program stands in: bin/sabot, lib/libsabot.so, lib/standin/libnccl.so.2,
// lib/libnccl-net-sabot.so, share/, and python/, which a wheel does without: there the package is
// where Python finds it.
//
// Everything is found relative to the running executable, so that the tree can be moved and several
// can stand side by side.
#pragma once

#include <string>

#include "base/result.hpp"

namespace sabot::launch {

struct Installation {
  std::string root;  // absolute, without a trailing slash

  std::string preload() const { return root + "/lib/libsabot.so"; }
  std::string standin() const { return root + "/lib/standin/libnccl.so.2"; }
  std::string net_plugin() const { return root + "/lib/libnccl-net-sabot.so"; }
  std::string python() const { return root + "/python"; }
  std::string demo_program() const { return root + "/share/sabot/demo/allreduce"; }
};

// From /proc/self/exe: the folder above the one the program is in.
Result<Installation> find_installation();

// The folder of the Python package for PYTHONPATH, "" if this installation has none.
std::string python_folder(const Installation& installation);

// The library for LD_PRELOAD, checked: it is there, and its path can be written in LD_PRELOAD.
Result<std::string> checked_library(const std::string& path);

}  // namespace sabot::launch
