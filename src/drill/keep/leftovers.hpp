// Files that processes of a case made and left behind: shared memory and sockets.
//
// Other jobs share the machine, so that a new name alone proves nothing: a file counts only if a
// process of the case was seen to have it open or mapped. The keeper looks again and again while
// the case runs; what it saw and what is still there afterwards, held by nobody else, is left over.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "drill/keep/process_tree.hpp"

namespace sabot::drill {

class Leftovers {
 public:
  // folder: of the case; what lies below it is ours to keep.
  explicit Leftovers(std::string folder);
  // While the case runs: who has what.
  void look(const std::vector<Process>& processes);
  // When all processes of the case have ended: "/dev/shm/x (1.5MiB)", "socket /tmp/y".
  std::vector<std::string> remaining() const;

 private:
  void look_at_shared_memory(const std::vector<Process>& processes);
  void look_at_sockets(const std::vector<Process>& processes);

  std::string folder_;
  std::set<std::string> before_;  // names in /dev/shm when the case began
  std::set<std::string> sockets_before_;
  std::set<std::string> ours_;  // paths in /dev/shm that a process of the case held
  std::set<std::string> our_sockets_;
};

}  // namespace sabot::drill
