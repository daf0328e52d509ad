// The build id among ELF notes, read alike from files and from mapped objects.
#pragma once

#include <cstddef>
#include <string>

namespace sabot::real {

// Hexadecimal; "" if the notes hold none or are malformed.
std::string build_id_in_notes(const char* notes, std::size_t bytes);

}  // namespace sabot::real
