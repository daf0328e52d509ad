// This rank's outbound window and its view of the others': stamps, credit, payload. Private.
//
// Credit. A slot may be overwritten once the readers of what lies in it are done. Mostly that is
// known without reading anything: whoever sent me a message of this collective has finished all
// earlier ones, so when I have heard everybody, all that I put before this collective has been
// read. Only otherwise the readers' counters are read, and only collectives with more messages than
// slots keep them up to date message by message.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/host/signature.hpp"
#include "link/segment.hpp"
#include "schedule/schedule.hpp"

namespace sabot::host {

constexpr schedule::RankMask bit(int rank) { return schedule::RankMask{1} << rank; }

class Window {
 public:
  Window(link::Segment& segment, int rank) : segment_(segment), rank_(rank) {
    for (int r = 0; r < segment.ranks(); ++r)
      windows_[static_cast<std::size_t>(r)] = segment.window(r);
    slots_ = segment.geometry().slots;
  }

  std::uint32_t slots() const { return slots_; }

  // The ranks that still have to read what lies in the slot of this message; 0 = it may be written.
  schedule::RankMask readers_left(std::uint64_t stamp) {
    const Put& old = puts_[stamp % slots_];
    return old.stamp <= everyone_ ? 0 : readers_left_of(old);
  }

  // Where my message goes: its line if it is tiny, else its slot.
  std::byte* target(std::uint64_t stamp, std::size_t bytes) const {
    const link::Slots& mine = windows_[static_cast<std::size_t>(rank_)];
    return bytes <= link::kSlotInlineBytes ? mine.line(stamp).payload : mine.data(stamp);
  }

  void publish(std::uint64_t stamp, std::size_t bytes, schedule::RankMask readers,
               std::uint64_t signature) {
    puts_[stamp % slots_] = {stamp, readers};
    link::SlotLine& line = windows_[static_cast<std::size_t>(rank_)].line(stamp);
    const std::uint64_t flag = bytes <= link::kSlotInlineBytes ? kInlineFlag : 0;
    // relaxed: the stamp that follows publishes it
    line.signature.store(signature | flag, std::memory_order_relaxed);
    // pairs with: arrived
    line.stamp.store(stamp, std::memory_order_release);
  }

  // A message that its readers will wait for in vain.
  void lose(std::uint64_t stamp, schedule::RankMask readers) {
    puts_[stamp % slots_] = {stamp, readers};
  }

  bool arrived(int source, std::uint64_t stamp) const {
    const link::SlotLine& line = windows_[static_cast<std::size_t>(source)].line(stamp);
    // pairs with: publish
    return line.stamp.load(std::memory_order_acquire) == stamp;
  }
  // The word of a message that has arrived.
  std::uint64_t signature(int source, std::uint64_t stamp) const {
    const link::SlotLine& line = windows_[static_cast<std::size_t>(source)].line(stamp);
    return line.signature.load(std::memory_order_relaxed) & ~kInlineFlag;
  }
  const std::byte* payload(int source, std::uint64_t stamp) const {
    const link::Slots& theirs = windows_[static_cast<std::size_t>(source)];
    const link::SlotLine& line = theirs.line(stamp);
    const bool tiny = (line.signature.load(std::memory_order_relaxed) & kInlineFlag) != 0;
    return tiny ? line.payload : theirs.data(stamp);
  }

  // Tells the writer that its message has been read; needed where slots are reused within one
  // collective, since complete() tells everybody at its end.
  void consume(int source, std::uint64_t stamp) const {
    // pairs with: readers_left_of
    segment_.consumed(rank_, source).store(stamp, std::memory_order_release);
  }

  // Ends a collective whose messages have the stamps from `base` + 1 to `next`.
  void complete(std::uint64_t base, std::uint64_t next, bool heard_everybody) {
    if (heard_everybody) everyone_ = base;
    // pairs with: readers_left_of
    segment_.completed(rank_).store(next, std::memory_order_release);
  }

  // Whether a peer has read all that was put for it.
  bool has_read_all(int peer) const {
    const std::uint64_t taken = taken_by(peer);
    return std::all_of(puts_.begin(), puts_.end(), [&](const Put& put) {
      return (put.readers & bit(peer)) == 0 || put.stamp <= taken;
    });
  }

 private:
  struct Put {
    std::uint64_t stamp = 0;
    schedule::RankMask readers = 0;
  };

  std::uint64_t taken_by(int peer) const {
    // Both loads: pairs with: complete, consume
    return std::max(segment_.completed(peer).load(std::memory_order_acquire),
                    segment_.consumed(peer, rank_).load(std::memory_order_acquire));
  }

  schedule::RankMask readers_left_of(const Put& old) {
    schedule::RankMask left = 0;
    for (schedule::RankMask rest = old.readers; rest != 0; rest &= rest - 1) {
      const int reader = std::countr_zero(rest);
      std::uint64_t& seen = seen_[static_cast<std::size_t>(reader)];
      if (seen < old.stamp) seen = taken_by(reader);
      if (seen < old.stamp) left |= bit(reader);
    }
    return left;
  }

  link::Segment& segment_;
  int rank_;
  std::uint32_t slots_ = 0;
  std::uint64_t everyone_ = 0;  // stamps up to this have been read by everybody
  std::array<Put, 64> puts_{};  // what lies in each slot of my window
  std::array<link::Slots, link::kRanksMax> windows_{};
  std::array<std::uint64_t, link::kRanksMax>
      seen_{};  // what each peer had taken when last looked at
};

}  // namespace sabot::host
