// Fuzzes the one-line form: any bytes are faults that print and read back, or a message.
#include <cstddef>
#include <cstdint>

#include "properties.hpp"
#include "scenario/parse.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sabot::fuzz::check_properties(sabot::scenario::parse_line(text, "--fault"), "--fault");
  return 0;
}
