// The table that `sabot drill` prints: one row a case, and below it what broke and what is wrong.
//
// A line never gets wider than the terminal it was made for, except a path or command that a person
// copies; a name that is too long goes on a line of its own. Whether colours may be used is the
// caller's to know.
#pragma once

#include <cstddef>
#include <string>

#include "drill/result.hpp"

namespace sabot::drill::report {

struct TableOptions {
  bool coloured = false;
  std::size_t columns = 80;  // at least 80: the numbers need them
};

std::string table_of(const DrillReport& report, const TableOptions& options = {});

}  // namespace sabot::drill::report
