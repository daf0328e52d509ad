// Builds one line of text in a fixed buffer: no allocation, no exception, truncation marked.
//
// Also the sink of the argument printers that the API spec generates (SABOT_SHOW_X): field(name,
// value).
#pragma once

#include <array>
#include <cstdio>
#include <string_view>
#include <type_traits>

#include "abi/call.hpp"

namespace sabot::layer {

class Line {
 public:
  std::string_view text() const { return {buffer_.data(), used_}; }

  void add(std::string_view text);
  void add_number(long long value);
  void add_pointer(const void* value);

  template <typename T>
  void field(const char* name, T value) {
    add(" ");
    add(name);
    add("=");
    if constexpr (std::is_pointer_v<T>) {
      add_pointer(reinterpret_cast<const void*>(value));
    } else {
      add_number(static_cast<long long>(value));
    }
  }

 private:
  static constexpr std::size_t kCapacity = 512;  // the longest call line is about 200 bytes
  std::array<char, kCapacity> buffer_{};
  std::size_t used_ = 0;
};

// "rank 1 AllReduce #3 count=6 float32 sum comm=c0 stream=0x0"
void describe(Line& line, const abi::Call& call);

}  // namespace sabot::layer
