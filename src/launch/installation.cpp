// Finding the parts of the installation.
#include "launch/installation.hpp"

#include <unistd.h>

#include "run/identity.hpp"

namespace sabot::launch {

Result<Installation> find_installation() {
  const std::string program = run::executable_path();
  const std::size_t name = program.rfind('/');
  const std::size_t folder =
      name == program.npos || name == 0 ? name : program.rfind('/', name - 1);
  if (folder == program.npos)
    return Error(Code::kSystem,
                 "cannot find out where this program is installed: /proc/self/exe says '" +
                     program + "'; is /proc mounted?");
  return Installation{program.substr(0, folder)};
}

std::string python_folder(const Installation& installation) {
  const std::string package = installation.python() + "/sabot/__init__.py";
  return ::access(package.c_str(), R_OK) == 0 ? installation.python() : "";
}

Result<std::string> checked_library(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0)
    return Error(Code::kNotFound,
                 "'" + path +
                     "' is missing beside this program; the tree of bin, lib and share has "
                     "to stay together: run `make` again, or install it with `make install`");
  if (path.find_first_of(" :") != path.npos)
    return Error(Code::kInvalidArgument,
                 "'" + path +
                     "' contains a space or a colon, which LD_PRELOAD cannot express; "
                     "install Sabot under a path without them");
  return path;
}

}  // namespace sabot::launch
