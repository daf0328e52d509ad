// The two ends of a channel: chunks from one rank to another, and the credit for them. Private to
// this module.
//
// The writer fills the next slot and publishes it by its stamp; the reader says how many chunks it
// has taken. Whether a chunk is part of a message or of a stream of bytes, its signature tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/host/signature.hpp"
#include "engine/host/state.hpp"
#include "link/segment.hpp"

namespace sabot::host {

class Outlet {
 public:
  Outlet(link::Segment& segment, int from, int to, Direction& direction)
      : slots_(segment.channel(from, to)),
        taken_(segment.channel_consumed(from, to)),
        direction_(direction) {}

  std::size_t chunk_bytes_max() const { return slots_.bytes; }

  bool has_room() {
    if (direction_.chunks - direction_.credit < slots_.count) return true;
    // pairs with: release
    direction_.credit = taken_.load(std::memory_order_acquire);
    return direction_.chunks - direction_.credit < slots_.count;
  }

  // Precondition: has_room(), and the chunk is not too long.
  void put(const std::byte* from, std::size_t bytes, std::uint64_t signature) {
    link::SlotLine& line = slots_.line(direction_.chunks);
    const bool tiny = bytes <= link::kSlotInlineBytes;
    if (bytes != 0) std::memcpy(tiny ? line.payload : slots_.data(direction_.chunks), from, bytes);
    // relaxed: the stamp that follows publishes it
    line.signature.store(signature | (tiny ? kInlineFlag : 0), std::memory_order_relaxed);
    ++direction_.chunks;
    // pairs with: arrived
    line.stamp.store(direction_.chunks, std::memory_order_release);
  }

  // A chunk that its reader will wait for in vain.
  void lose() { ++direction_.chunks; }

 private:
  link::Slots slots_;
  std::atomic<std::uint64_t>& taken_;
  Direction& direction_;
};

class Inlet {
 public:
  Inlet(link::Segment& segment, int from, int to, Direction& direction)
      : slots_(segment.channel(from, to)),
        taken_(segment.channel_consumed(from, to)),
        direction_(direction) {}

  std::size_t chunk_bytes_max() const { return slots_.bytes; }

  bool arrived() const {
    // pairs with: put
    return line().stamp.load(std::memory_order_acquire) == direction_.chunks + 1;
  }
  // Of the chunk that has arrived, as the following.
  std::uint64_t signature() const { return word() & ~kInlineFlag; }
  const std::byte* payload() const {
    return (word() & kInlineFlag) != 0 ? line().payload : slots_.data(direction_.chunks);
  }
  // Gives its place back to the writer.
  void release() {
    ++direction_.chunks;
    // pairs with: has_room
    taken_.store(direction_.chunks, std::memory_order_release);
  }

 private:
  const link::SlotLine& line() const { return slots_.line(direction_.chunks); }
  std::uint64_t word() const { return line().signature.load(std::memory_order_relaxed); }

  link::Slots slots_;
  std::atomic<std::uint64_t>& taken_;
  Direction& direction_;
};

}  // namespace sabot::host
