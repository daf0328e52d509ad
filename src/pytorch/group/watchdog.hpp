// One thread of the process that looks after all groups: what is overdue, what broke.
#pragma once

#include <memory>

namespace sabot::pytorch {

class Group;

// Starts the thread at the first call, also in a forked child. A group that died is forgotten.
void watch(const std::shared_ptr<Group>& group);

}  // namespace sabot::pytorch
