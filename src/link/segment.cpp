// Layout and life of the shared segment; its words are explained in segment.hpp.
//
// Order in the file: header, then per rank one control block, then the windows' payloads, then the
// channels. Everything that is written on the fast path sits on a cache line of its own writer;
// control blocks are page-aligned. Sizes and offsets follow from Geometry alone, so a mapper
// recomputes them and only has to trust the header.
#include "link/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sabot::link {
namespace {

constexpr std::uint64_t kMagic = 0x32304745534f4253;  // "SBOSEG02", changes with the layout
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kSlotsMax = 64;
constexpr std::size_t kSegmentBytesMax = std::size_t{1} << 36;
constexpr int kPublishSpinsMax = 1 << 20;

constexpr std::size_t page_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

Error system_error(const std::string& doing) {
  return Error(Code::kSystem, doing + ": " + std::strerror(errno));
}

bool is_sane(const Geometry& geometry) {
  return geometry.ranks >= 1 && geometry.ranks <= static_cast<std::uint32_t>(kRanksMax) &&
         geometry.slots >= 2 && geometry.slots <= kSlotsMax && geometry.channel_slots >= 2 &&
         geometry.channel_slots <= kSlotsMax && geometry.slot_bytes >= kPage &&
         geometry.slot_bytes % kPage == 0 && geometry.channel_slot_bytes >= kPage &&
         geometry.channel_slot_bytes % kPage == 0;
}

}  // namespace

struct Segment::Header {
  std::uint64_t magic;
  Geometry geometry;
  // The failure block: claimed by the first to fail, then filled, then published.
  alignas(kLineBytes) std::atomic<std::uint32_t> failure_published;
  alignas(kLineBytes) std::atomic<std::uint32_t> failure_claimed;
  FailureKind failure_kind;
  std::int32_t failure_culprit;
  std::int32_t failure_reporter;
  char failure_text[kFailureTextBytes];
};

struct Blob {
  std::atomic<std::uint64_t> version;  // odd while it is written
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> length;
  std::atomic<std::uint64_t> words[kBlobBytesMax / sizeof(std::uint64_t)];
};

struct Segment::RankBlock {
  alignas(kLineBytes) std::atomic<std::uint64_t> completed;
  alignas(kLineBytes) std::atomic<Presence> presence;
  std::atomic<std::uint64_t> cpu_mask[kCpuWords];
  std::atomic<std::uint64_t> blobs_posted;
  alignas(kLineBytes) std::atomic<std::uint64_t> consumed[kRanksMax];
  alignas(kLineBytes) std::atomic<std::uint64_t> channel_consumed[kRanksMax];
  alignas(kLineBytes) HistoryEntry history[kHistoryCount];
  alignas(kLineBytes) SlotLine lines[kSlotsMax];
  alignas(kLineBytes) Blob blobs[kBlobCount];
};

// Byte offsets of what follows from a geometry.
struct Segment::Layout {
  explicit Layout(const Geometry& g)
      : block_bytes(page_up(sizeof(RankBlock))),
        window_bytes(std::size_t{g.slots} * g.slot_bytes),
        channel_bytes(page_up(g.channel_slots * sizeof(SlotLine)) +
                      std::size_t{g.channel_slots} * g.channel_slot_bytes),
        blocks(page_up(sizeof(Header))),
        windows(blocks + g.ranks * block_bytes),
        channels(windows + g.ranks * window_bytes),
        total(channels + std::size_t{g.ranks} * g.ranks * channel_bytes) {}
  std::size_t block_bytes;
  std::size_t window_bytes;
  std::size_t channel_bytes;
  std::size_t blocks;
  std::size_t windows;
  std::size_t channels;
  std::size_t total;
};

Geometry Geometry::for_ranks(int ranks, int cpus) {
  Geometry geometry;
  geometry.ranks = static_cast<std::uint32_t>(std::max(ranks, 0));
  geometry.cpus = static_cast<std::uint32_t>(std::max(cpus, 1));
  // Few and large: a chunk costs a wait, and the slots in use should stay in the cache.
  geometry.slots = 4;
  geometry.slot_bytes = 512 * 1024;
  geometry.channel_slots = 4;
  // n² channels are mapped, though only those in use are touched.
  geometry.channel_slot_bytes = ranks <= 16 ? 256 * 1024 : 64 * 1024;
  return geometry;
}

Segment::Segment(Geometry geometry, std::byte* base, std::size_t bytes, int fd)
    : geometry_(geometry), base_(base), bytes_(bytes), fd_(fd) {}

Segment::~Segment() {
  munmap(base_, bytes_);
  close_descriptor();
}

void Segment::close_descriptor() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

Result<std::unique_ptr<Segment>> Segment::create(const Geometry& geometry) {
  if (!is_sane(geometry))
    return Error(Code::kInvalidArgument,
                 "making shared memory for " + std::to_string(geometry.ranks) +
                     " ranks: between 1 and " + std::to_string(kRanksMax) + " are possible");
  const int fd = memfd_create("sabot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return system_error("making shared memory (memfd_create)");
  const std::size_t bytes = Layout(geometry).total;
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const Error error = system_error("making shared memory of " + std::to_string(bytes) + " bytes");
    close(fd);
    return error;
  }
  // No peer can shrink it under our feet: reading past its end would be a SIGBUS.
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  auto segment = SABOT_TRY(map_bytes(geometry, fd, true));
  segment->header().geometry = geometry;
  segment->header().magic = kMagic;
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::map(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) return system_error("looking at shared memory");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes < page_up(sizeof(Header)) || bytes > kSegmentBytesMax)
    return Error(Code::kInvalidArgument, "mapping shared memory: its size is not one of a segment");
  void* memory = mmap(nullptr, page_up(sizeof(Header)), PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return system_error("mapping shared memory");
  const auto* header = static_cast<const Header*>(memory);
  const std::uint64_t magic = header->magic;
  const Geometry geometry = header->geometry;
  munmap(memory, page_up(sizeof(Header)));
  if (magic != kMagic)
    return Error(Code::kInvalidArgument,
                 "mapping shared memory: it is not a segment of this version of Sabot; all ranks "
                 "must run the same version");
  if (!is_sane(geometry) || Layout(geometry).total != bytes)
    return Error(Code::kInvalidArgument, "mapping shared memory: its header does not fit its size");
  return map_bytes(geometry, fd, false);
}

Result<std::unique_ptr<Segment>> Segment::map_bytes(const Geometry& geometry, int fd, bool owned) {
  const std::size_t bytes = Layout(geometry).total;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    const Error error =
        system_error("mapping " + std::to_string(bytes) + " bytes of shared memory");
    if (owned) close(fd);
    return error;
  }
  return std::unique_ptr<Segment>(
      new Segment(geometry, static_cast<std::byte*>(memory), bytes, owned ? fd : -1));
}

Segment::Header& Segment::header() const { return *reinterpret_cast<Header*>(base_); }

Segment::RankBlock& Segment::block(int rank) const {
  const Layout layout(geometry_);
  return *reinterpret_cast<RankBlock*>(base_ + layout.blocks +
                                       static_cast<std::size_t>(rank) * layout.block_bytes);
}

Slots Segment::window(int rank) const {
  const Layout layout(geometry_);
  return {block(rank).lines,
          base_ + layout.windows + static_cast<std::size_t>(rank) * layout.window_bytes,
          geometry_.slots, geometry_.slot_bytes};
}

Slots Segment::channel(int from, int to) const {
  const Layout layout(geometry_);
  const std::size_t index =
      static_cast<std::size_t>(from) * geometry_.ranks + static_cast<std::size_t>(to);
  std::byte* begin = base_ + layout.channels + index * layout.channel_bytes;
  return {reinterpret_cast<SlotLine*>(begin),
          begin + page_up(geometry_.channel_slots * sizeof(SlotLine)), geometry_.channel_slots,
          geometry_.channel_slot_bytes};
}

std::atomic<std::uint64_t>& Segment::channel_consumed(int from, int to) const {
  return block(to).channel_consumed[from];
}

std::atomic<std::uint64_t>& Segment::completed(int reader) const { return block(reader).completed; }

std::atomic<std::uint64_t>& Segment::consumed(int reader, int writer) const {
  return block(reader).consumed[writer];
}

HistoryEntry& Segment::history(int rank, std::uint64_t number) const {
  return block(rank).history[number % kHistoryCount];
}

std::optional<std::uint64_t> Segment::recall(int rank, std::uint64_t number) const {
  const HistoryEntry& entry = history(rank, number);
  if (entry.number.load() != number) return std::nullopt;
  const std::uint64_t signature = entry.signature.load();
  if (entry.number.load() != number) return std::nullopt;
  return signature;
}

std::atomic<Presence>& Segment::presence(int rank) const { return block(rank).presence; }

std::atomic<std::uint64_t>* Segment::cpu_mask(int rank) const { return block(rank).cpu_mask; }

Failure Segment::fail(const Failure& failure) {
  Header& shared = header();
  std::uint32_t unclaimed = 0;
  if (shared.failure_claimed.compare_exchange_strong(unclaimed, 1)) {
    shared.failure_kind = failure.kind;
    shared.failure_culprit = failure.culprit;
    shared.failure_reporter = failure.reporter;
    const std::size_t length = std::min(failure.text.size(), kFailureTextBytes - 1);
    std::memcpy(shared.failure_text, failure.text.data(), length);
    shared.failure_text[length] = '\0';
    shared.failure_published.store(1);
    return failure;
  }
  // Somebody else is first. A rank that died between claim and publication must not hold us here.
  for (int spin = 0; spin < kPublishSpinsMax; ++spin)
    if (auto standing = this->failure()) return *standing;
  return failure;
}

bool Segment::failed() const {
  // pairs with: fail
  return header().failure_published.load(std::memory_order_acquire) != 0;
}

std::optional<Failure> Segment::failure() const {
  if (!failed()) return std::nullopt;
  const Header& shared = header();
  const std::size_t length = strnlen(shared.failure_text, kFailureTextBytes);
  return Failure{shared.failure_kind, shared.failure_culprit, shared.failure_reporter,
                 std::string(shared.failure_text, length)};
}

Status Segment::post_blob(int rank, std::uint64_t key, std::span<const std::byte> bytes) {
  if (bytes.size() > kBlobBytesMax)
    return Error(Code::kInvalidArgument, "posting " + std::to_string(bytes.size()) +
                                             " bytes to the other ranks: at most " +
                                             std::to_string(kBlobBytesMax) + " fit");
  RankBlock& mine = block(rank);
  Blob& blob = mine.blobs[mine.blobs_posted.fetch_add(1) % kBlobCount];
  blob.version.fetch_add(1);
  blob.key.store(key);
  blob.length.store(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    blob.words[at / sizeof(word)].store(word);
  }
  blob.version.fetch_add(1);
  return {};
}

std::optional<std::vector<std::byte>> Segment::fetch_blob(int rank, std::uint64_t key) const {
  const RankBlock& theirs = block(rank);
  const std::uint64_t posted = theirs.blobs_posted.load();
  const std::uint64_t oldest = posted > kBlobCount ? posted - kBlobCount : 0;
  for (std::uint64_t n = posted; n > oldest; --n) {  // newest first
    const Blob& blob = theirs.blobs[(n - 1) % kBlobCount];
    const std::uint64_t version = blob.version.load();
    if (version % 2 != 0 || version == 0 || blob.key.load() != key) continue;
    const std::size_t length = std::min<std::size_t>(blob.length.load(), kBlobBytesMax);
    std::vector<std::byte> bytes(length);
    for (std::size_t at = 0; at < length; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = blob.words[at / sizeof(word)].load();
      std::memcpy(bytes.data() + at, &word, std::min(sizeof(word), length - at));
    }
    if (blob.version.load() == version) return bytes;
  }
  return std::nullopt;
}

}  // namespace sabot::link
