// Lists one folder, in an order that does not depend on the file system.
#include "run/read/folder_listing.hpp"

#include <dirent.h>

#include <algorithm>
#include <memory>

namespace sabot::run {

std::vector<std::string> list_folder(const std::string& folder, std::string_view suffix) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
  if (!entries) return names;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name.starts_with('.') || name.ends_with(".tmp") || !name.ends_with(suffix)) continue;
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sabot::run
