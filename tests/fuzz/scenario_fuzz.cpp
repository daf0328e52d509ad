// Fuzzes scenario files: any bytes are a scenario that prints and reads back, or a message.
#include <cstddef>
#include <cstdint>

#include "properties.hpp"
#include "scenario/parse.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sabot::fuzz::check_properties(sabot::scenario::parse_toml(text, "fuzz.toml"), "fuzz.toml");
  return 0;
}
