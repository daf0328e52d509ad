// Exchange of wishes through blobs, and names derived from the parent's.
#include "comm/life/derive.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "world/socket.hpp"

namespace sabot::comm::life {
namespace {

enum class Round : std::uint64_t { kSplit = 1, kShrink = 2, kGrow = 3, kLeader = 4 };

constexpr std::size_t kTextBytes = 512;

struct Outcome {
  std::uint32_t code = 0;  // 0 = success, else 1 + Code
  char text[kTextBytes] = {};

  static Outcome of(const Error& error) {
    Outcome outcome;
    outcome.code = 1 + static_cast<std::uint32_t>(error.code());
    std::memcpy(outcome.text, error.message().data(),
                std::min(error.message().size(), kTextBytes - 1));
    return outcome;
  }
};

struct SplitWish {
  Outcome outcome;
  int color = NCCL_SPLIT_NOCOLOR;
  int key = 0;
};

struct GrowWish {
  Outcome outcome;
  std::uint32_t has_id = 0;
  int ranks = 0;
  world::UniqueId id;
};

std::uint64_t key_of(const Derivation& step, Round round, std::uint64_t detail = 0) {
  return mix(mix(static_cast<std::uint64_t>(round), step.number), detail);
}

world::WorldName child_name(const Derivation& step, Round round, std::uint64_t detail) {
  const world::WorldName& parent = step.parent.seat.world;
  const std::uint64_t salt = key_of(step, round, detail);
  return {mix(parent[0], salt), mix(parent[1], salt)};
}

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

template <typename T>
Status post(const Derivation& step, std::uint64_t key, const T& blob) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= link::kBlobBytesMax);
  return step.parent.seat.segment->post_blob(step.parent.seat.rank, key,
                                             std::as_bytes(std::span<const T, 1>(&blob, 1)));
}

template <typename T>
std::optional<T> look_up(const Derivation& step, int rank, std::uint64_t key) {
  const auto bytes = step.parent.seat.segment->fetch_blob(rank, key);
  if (!bytes || bytes->size() != sizeof(T)) return std::nullopt;
  T blob;
  std::memcpy(&blob, bytes->data(), sizeof blob);
  return blob;
}

// What makes waiting for a rank of the parent pointless.
Status check_present(const Derivation& step, int rank) {
  const world::Life& life = step.parent.seat.members[static_cast<std::size_t>(rank)];
  if (!life.is_alive()) {
    return Error(Code::kRemote,
                 rank_text(rank) + " died (process " + std::to_string(life.pid()) + " is gone)");
  }
  if (step.parent.seat.segment->presence(rank).load() == link::Presence::kLeft) {
    return Error(Code::kRemote, rank_text(rank) + " destroyed its communicator");
  }
  return {};
}

// Whoever declares the parent failed will hardly come to the call that others wait in.
Status check_not_declared_failed(const Derivation& step) {
  const auto failure = step.parent.seat.segment->failure();
  if (!failure || failure->kind != link::FailureKind::kDeclared) return {};
  return Error(Code::kRemote, failure->text);
}

template <typename T>
Result<T> await_blob(const Derivation& step, int rank, std::uint64_t key) {
  const std::uint64_t deadline = monotonic_ns() + step.parent.options.timeout_ns;
  host::Waiter waiter(true);
  for (;;) {
    // Looked for after its life: what a rank put before it died counts.
    const Status present = check_present(step, rank);
    if (std::optional<T> blob = look_up<T>(step, rank, key)) {
      if (blob->outcome.code == 0) return *blob;
      return Error(Code::kRemote, rank_text(rank) + " failed: " + blob->outcome.text);
    }
    // First the cause, then what followed from it: who declares the failure may leave at once.
    SABOT_TRY(check_not_declared_failed(step));
    if (!present.ok()) return present.error();
    if (step.interruption) SABOT_TRY(step.interruption());
    if (monotonic_ns() >= deadline) {
      return Error(Code::kTimeout,
                   rank_text(rank) + " did not call in time (" +
                       std::to_string(step.parent.options.timeout_ns / 1'000'000'000) +
                       " s); all ranks must make the same calls in the same order");
    }
    waiter.pause();
  }
}

struct Circle {
  std::vector<int> members;  // ranks of the parent, in order of their rank in the child
  int rank = 0;              // mine in the child
  world::WorldName name{};
};

Place place_in(const Derivation& step, const Circle& circle, std::uint64_t leader_key) {
  Place place;
  place.rank = circle.rank;
  place.ranks = static_cast<int>(circle.members.size());
  place.interruption = [&step, &circle, leader_key]() -> Status {
    if (step.interruption) SABOT_TRY(step.interruption());
    for (const int member : circle.members) SABOT_TRY(check_present(step, member));
    const int leader = circle.members.front();
    const auto said = look_up<SplitWish>(step, leader, leader_key);
    if (said && said->outcome.code != 0) {
      return Error(Code::kRemote, rank_text(leader) + " failed: " + said->outcome.text);
    }
    return {};
  };
  return place;
}

Result<Seat> gather(const Derivation& step, const Circle& circle) {
  const std::uint64_t leader_key = key_of(step, Round::kLeader, circle.name[0]);
  if (circle.rank == 0) {
    const Status opened = world::open_named_rendezvous(
        circle.name, static_cast<int>(circle.members.size()), serve_options(step.parent.options));
    if (!opened.ok()) {
      SplitWish failure;
      failure.outcome = Outcome::of(opened.error());
      post(step, leader_key, failure).ignore();
      return opened.error();
    }
  }
  return meet_named(step.parent.options, circle.name, place_in(step, circle, leader_key));
}

}  // namespace

void report_split_failure(const Derivation& step, const Error& why) {
  SplitWish wish;
  wish.outcome = Outcome::of(why);
  post(step, key_of(step, Round::kSplit), wish).ignore();
}

Result<std::optional<Seat>> split(const Derivation& step, int color, int key) {
  const std::uint64_t blob_key = key_of(step, Round::kSplit);
  SplitWish mine;
  mine.color = color;
  mine.key = key;
  SABOT_TRY(post(step, blob_key, mine));
  std::vector<std::pair<int, int>> order;  // key, rank of the parent
  for (int rank = 0; rank < step.parent.seat.ranks; ++rank) {
    const SplitWish wish = SABOT_TRY(await_blob<SplitWish>(step, rank, blob_key));
    if (wish.color == color) order.emplace_back(wish.key, rank);
  }
  if (color == NCCL_SPLIT_NOCOLOR) return std::optional<Seat>();
  std::sort(order.begin(), order.end());
  Circle circle;
  circle.name = child_name(step, Round::kSplit, static_cast<std::uint32_t>(color));
  for (const auto& [member_key, rank] : order) {
    if (rank == step.parent.seat.rank) circle.rank = static_cast<int>(circle.members.size());
    circle.members.push_back(rank);
  }
  return std::optional<Seat>(SABOT_TRY(gather(step, circle)));
}

Result<Seat> shrink(const Derivation& step, const std::vector<int>& excluded) {
  std::uint64_t detail = excluded.size();
  for (const int rank : excluded) detail = mix(detail, static_cast<std::uint64_t>(rank));
  Circle circle;
  circle.name = child_name(step, Round::kShrink, detail);
  for (int rank = 0; rank < step.parent.seat.ranks; ++rank) {
    if (std::binary_search(excluded.begin(), excluded.end(), rank)) continue;
    if (rank == step.parent.seat.rank) circle.rank = static_cast<int>(circle.members.size());
    circle.members.push_back(rank);
  }
  return gather(step, circle);
}

Result<Seat> grow(const Derivation& step, int ranks, const std::optional<world::UniqueId>& id) {
  const std::uint64_t key = key_of(step, Round::kGrow);
  GrowWish mine;
  mine.ranks = ranks;
  if (id) {
    mine.has_id = 1;
    mine.id = *id;
  }
  SABOT_TRY(post(step, key, mine));
  std::optional<world::UniqueId> chosen;
  int root = -1;
  for (int rank = 0; rank < step.parent.seat.ranks; ++rank) {
    const GrowWish wish = SABOT_TRY(await_blob<GrowWish>(step, rank, key));
    if (wish.ranks != ranks) {
      return Error(Code::kInvalidUsage,
                   rank_text(rank) + " grows to " + std::to_string(wish.ranks) + " ranks, but " +
                       rank_text(step.parent.seat.rank) + " to " + std::to_string(ranks));
    }
    if (wish.has_id == 0) continue;
    if (chosen) {
      return Error(Code::kInvalidUsage, rank_text(root) + " and " + rank_text(rank) +
                                            " both pass a unique id; one existing rank must, the "
                                            "others pass NULL");
    }
    chosen = wish.id;
    root = rank;
  }
  if (!chosen) {
    return Error(Code::kInvalidUsage,
                 "no existing rank passes the unique id; the one that called ncclCommGetUniqueId "
                 "must");
  }
  Place place;
  place.rank = step.parent.seat.rank;
  place.ranks = ranks;
  place.interruption = step.interruption;
  return meet(step.parent.options, *chosen, place);
}

}  // namespace sabot::comm::life
