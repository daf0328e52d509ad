// The loader's cache (/etc/ld.so.cache), read without running ldconfig. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sabot::real {

// Paths of the 64-bit libraries of this name, in the cache's order; none if the bytes are not such
// a cache.
std::vector<std::string> paths_in_ld_cache(std::string_view bytes, std::string_view name);

}  // namespace sabot::real
