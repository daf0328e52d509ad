// A wait that is asked again, and changes of a few elements.
#include "driver/fake_kernels.hpp"

#include <atomic>
#include <cstring>
#include <utility>

namespace sabot::driver {
namespace {

using Word = std::atomic<std::uint32_t>;

void set(const Reach& reach, Address address) {
  if (address == 0) return;
  if (auto* word = static_cast<Word*>(reach.host(address))) word->store(1);
}

std::uint64_t changed(const EditParameters& edit, const Reach& reach, std::uint32_t i,
                      std::uint64_t old) {
  if (edit.edit == Edit::kMask) return (old & edit.mask[i]) ^ edit.flip[i];
  if (edit.element_bytes == 1) return edit.table[old];
  return reach.scale(edit.type, old, edit.factor);
}

}  // namespace

std::function<bool(std::uint64_t)> fake_spin(const SpinParameters& spin, Reach reach) {
  struct State {
    bool has_begun = false;
    std::uint64_t began_ns = 0;
  };
  return [spin, reach = std::move(reach), state = State{}](std::uint64_t now_ns) mutable {
    if (!state.has_begun) {
      state = {true, now_ns};
      set(reach, spin.arrival);
    }
    const auto* release = static_cast<const Word*>(reach.host(spin.release));
    const bool is_released = release == nullptr || release->load() != 0;
    const bool is_over = spin.limit_ns != 0 && now_ns - state.began_ns >= spin.limit_ns;
    if (!is_released && !is_over) return false;
    set(reach, spin.departure);
    return true;
  };
}

std::function<bool(std::uint64_t)> fake_edit(const EditParameters& edit, Reach reach) {
  return [edit, reach = std::move(reach)](std::uint64_t) {
    for (std::uint32_t i = 0; i < edit.count; ++i) {
      auto* element =
          reinterpret_cast<std::byte*>(edit.buffer) + edit.index[i] * edit.element_bytes;
      auto* saved =
          edit.saved == 0 ? nullptr : static_cast<std::uint64_t*>(reach.host(edit.saved + 8 * i));
      std::uint64_t bits = 0;
      if (edit.edit == Edit::kRestore) {
        if (edit.mask[i] == 0 || saved == nullptr) continue;
        bits = *saved;
      } else {
        std::memcpy(&bits, element, edit.element_bytes);
        if (saved != nullptr) *saved = bits;
        bits = changed(edit, reach, i, bits);
      }
      std::memcpy(element, &bits, edit.element_bytes);
    }
    set(reach, edit.done);
    return true;
  };
}

}  // namespace sabot::driver
