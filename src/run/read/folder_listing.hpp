// The names in a folder of a run, sorted, so that everything read from a run has one order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sabot::run {

// Names that end with suffix; hidden and temporary files are left out. A missing folder is empty.
std::vector<std::string> list_folder(const std::string& folder, std::string_view suffix);

}  // namespace sabot::run
