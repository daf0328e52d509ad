// The shared memory of one communicator: what its ranks, threads or processes, see of each other.
//
// The one idea: every word has one writer. A rank owns its outbound window (slots with stamps), its
// counters of what it consumed, its record of what it called, its blobs; peers only read. So the
// data path needs no lock, no read-modify-write and no barrier, only release stores and acquire
// loads. The only contended word is the claim of the failure block. It is a memfd: it has no name,
// nothing is left behind when the last process is gone, /dev/shm is not involved, and a page costs
// memory only once it is touched. What stamps and counters mean is left to the engine; who gets the
// descriptor, to world.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "link/processors.hpp"

namespace sabot::link {

inline constexpr int kRanksMax = 64;
inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kSlotInlineBytes = 48;
inline constexpr std::size_t kHistoryCount = 64;  // calls of a rank that are remembered
inline constexpr std::size_t kBlobBytesMax = 1024;
inline constexpr std::size_t kBlobCount = 16;  // blobs of a rank that are remembered

// Sizes of a segment. All ranks read them from the segment itself, so they agree.
struct Geometry {
  std::uint32_t ranks = 0;
  std::uint32_t cpus = 1;           // that ranks may use, as long as they have not told theirs
  std::uint32_t slots = 0;          // messages in flight per rank
  std::uint32_t slot_bytes = 0;     // multiple of the page size
  std::uint32_t channel_slots = 0;  // chunks in flight per ordered pair
  std::uint32_t channel_slot_bytes = 0;

  // Sizes that suit so many ranks: at most about 2 MiB of windows per rank, mapped below 4 GiB in
  // all.
  static Geometry for_ranks(int ranks, int cpus);
};

// The head of one message: stamp, signature and tiny payload in one cache line, so that a small
// message is one line transfer. The writer fills signature and payload, then stores stamp with
// release.
struct alignas(kLineBytes) SlotLine {
  std::atomic<std::uint64_t> stamp;
  std::atomic<std::uint64_t> signature;
  std::byte payload[kSlotInlineBytes];
};
static_assert(sizeof(SlotLine) == kLineBytes);

// One remembered call. number is stored last (release), and set to 0 before a change.
struct HistoryEntry {
  std::atomic<std::uint64_t> number;  // 1-based
  std::atomic<std::uint64_t> signature;
};

enum class Presence : std::uint32_t {
  kAbsent = 0,  // has not opened its end yet
  kPresent = 1,
  kLeft = 2,     // closed its end; sends nothing more
  kAborted = 3,  // aborted its end; sends nothing more
};

// Slots of one writer towards one reader (channel) or towards all (window).
struct Slots {
  SlotLine* lines = nullptr;
  std::byte* payload = nullptr;
  std::uint32_t count = 0;
  std::uint32_t bytes = 0;
  SlotLine& line(std::uint64_t message) const { return lines[message % count]; }
  std::byte* data(std::uint64_t message) const { return payload + (message % count) * bytes; }
};

enum class FailureKind : std::uint32_t {
  kMismatch = 1,
  kDead = 2,
  kGone = 3,
  kInternal = 4,
  kDeclared = 5,  // by the application, for reasons of its own
};

// Why a communicator is unusable. The first one stands for good.
struct Failure {
  FailureKind kind = FailureKind::kInternal;
  int culprit = -1;   // the rank it is about
  int reporter = -1;  // the rank that noticed
  std::string text;   // at most kFailureTextBytes, longer text is cut
};
inline constexpr std::size_t kFailureTextBytes = 1920;

// A mapping of the segment. Thread-safe throughout: all shared state is atomic or has one writer as
// stated. Pointers and references into it live as long as the Segment.
class Segment {
 public:
  // Makes a segment and maps it. Errors: kInvalidArgument (ranks), kSystem.
  static Result<std::unique_ptr<Segment>> create(const Geometry& geometry);
  // Maps what create() made, from its descriptor, which is borrowed and not needed afterwards.
  // Errors: kInvalidArgument (not a segment of this version, truncated), kSystem.
  static Result<std::unique_ptr<Segment>> map(int fd);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // The creator's descriptor (close-on-exec), to be passed to the other processes; -1 for map()ped
  // segments and after close_descriptor(). Mappings stay valid without it.
  int descriptor() const { return fd_; }
  void close_descriptor();

  const Geometry& geometry() const { return geometry_; }
  int ranks() const { return static_cast<int>(geometry_.ranks); }

  // The outbound window of a rank; written by that rank only.
  Slots window(int rank) const;
  // The channel for send/recv from one rank to another (also to itself); written by `from` only.
  Slots channel(int from, int to) const;
  // How many chunks of channel(from, to) its reader has taken; written by `to` only.
  std::atomic<std::uint64_t>& channel_consumed(int from, int to) const;

  // Every window message of anybody with a stamp up to this has been consumed by `reader` or was
  // not meant for it. Written by `reader` only.
  std::atomic<std::uint64_t>& completed(int reader) const;
  // Stamp of the last message of `writer` that `reader` took. Written by `reader` only.
  std::atomic<std::uint64_t>& consumed(int reader, int writer) const;

  // The record of a rank's calls: call n is at n % kHistoryCount. Written by that rank only.
  HistoryEntry& history(int rank, std::uint64_t number) const;
  // The signature of a rank's call n, if it has been made and is still remembered.
  std::optional<std::uint64_t> recall(int rank, std::uint64_t number) const;

  std::atomic<Presence>& presence(int rank) const;
  // The processors this rank may run on, as a mask of kCpuWords words; all zero = not told.
  std::atomic<std::uint64_t>* cpu_mask(int rank) const;

  // Records a failure unless there is one; returns the one that stands. Never blocks for long: when
  // another rank is just writing its own and does not finish, the given one is returned.
  Failure fail(const Failure& failure);
  // Cheap: one load of a line that is written at most once.
  bool failed() const;
  std::optional<Failure> failure() const;

  // Out-of-band exchange. A rank's blob can be fetched by any rank, by key, until its poster has
  // posted kBlobCount more. Posting the same key again replaces what is found. Errors:
  // kInvalidArgument (too long). fetch never blocks; nothing = not posted yet.
  Status post_blob(int rank, std::uint64_t key, std::span<const std::byte> bytes);
  std::optional<std::vector<std::byte>> fetch_blob(int rank, std::uint64_t key) const;

 private:
  struct Header;
  struct RankBlock;
  struct Layout;

  Segment(Geometry geometry, std::byte* base, std::size_t bytes, int fd);
  static Result<std::unique_ptr<Segment>> map_bytes(const Geometry& geometry, int fd, bool owned);
  RankBlock& block(int rank) const;
  Header& header() const;

  Geometry geometry_;
  std::byte* base_;
  std::size_t bytes_;
  int fd_;
};

}  // namespace sabot::link
