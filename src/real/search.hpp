// Where the vendor's library may be, in the order in which the places are asked. Pure.
#pragma once

#include <string>
#include <vector>

#include "real/loader.hpp"
#include "real/real_library.hpp"

namespace sabot::real {

struct Candidate {
  Place place;
  std::string path;     // "" = this place offers nothing
  std::string absent;   // why it offers nothing
  bool mapped = false;  // already in the process: to be pinned, not loaded
};

// next_path: the object that RTLD_NEXT leads to ("" = none); cached: what the loader's cache names.
std::vector<Candidate> candidates(const SearchSettings& settings,
                                  const std::vector<MappedObject>& objects,
                                  const std::string& next_path,
                                  const std::vector<std::string>& cached);

}  // namespace sabot::real
