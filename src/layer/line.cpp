// The words of a logged call, in the order in which people read them.
#include "layer/line.hpp"

#include <algorithm>
#include <cstring>

#include "abi/names.hpp"

namespace sabot::layer {

void Line::add(std::string_view text) {
  constexpr std::string_view kCut = "…";
  const std::size_t room = kCapacity - kCut.size() - used_;
  const std::size_t length = std::min(text.size(), room);
  std::memcpy(buffer_.data() + used_, text.data(), length);
  used_ += length;
  if (length == text.size() || room == 0) return;
  std::memcpy(buffer_.data() + used_, kCut.data(), kCut.size());
  used_ = kCapacity - kCut.size();
}

void Line::add_number(long long value) {
  std::array<char, 24> digits{};
  const int length = std::snprintf(digits.data(), digits.size(), "%lld", value);
  add({digits.data(), static_cast<std::size_t>(length)});
}

void Line::add_pointer(const void* value) {
  std::array<char, 24> digits{};
  const int length =
      std::snprintf(digits.data(), digits.size(), "0x%llx",
                    static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(value)));
  add({digits.data(), static_cast<std::size_t>(length)});
}

void describe(Line& line, const abi::Call& call) {
  const int rank = call.rank >= 0 ? call.rank : call.world_rank;
  line.add("rank ");
  if (rank >= 0)
    line.add_number(rank);
  else
    line.add("?");
  line.add(" ");
  line.add(abi::info(call.function).name);
  line.add(" #");
  line.add_number(static_cast<long long>(call.nth));
  if (call.has_count) line.field("count", call.count);
  if (call.datatype >= 0) {
    line.add(" ");
    line.add(abi::datatype_name(call.datatype));
  }
  if (call.redop >= 0) {
    line.add(" ");
    line.add(abi::redop_name(call.redop));
  }
  if (abi::info(call.function).has_root) line.field("root", call.root);
  if (abi::info(call.function).has_peer) line.field("peer", call.peer);
  if (call.comm_label[0] != '\0') {
    line.add(" comm=");
    line.add(call.comm_label);
  } else if (call.comm != nullptr) {
    line.field("comm", call.comm);
  }
  if (abi::info(call.function).has_stream) line.field("stream", call.stream);
  if (call.in_place) line.add(" in-place");
  if (call.group_position != 0) {
    line.field("group", call.group);
    line.add(".");
    line.add_number(call.group_position);
  }
}

}  // namespace sabot::layer
