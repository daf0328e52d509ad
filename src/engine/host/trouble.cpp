// The slow path of every wait: aborts, failures, mismatched calls, dead and departed peers.
//
// A rank that waits in vain finds out why by itself: every 20 ms it compares its call with what all
// others say they called under the same number, asks who is dead, and looks whether those it waits
// for have left. What it finds is written into the segment's failure block, so that all ranks stop
// with the same text instead of waiting for each other.
#include <algorithm>

#include "engine/host/endpoint.hpp"
#include "engine/host/signature.hpp"
#include "engine/host/state.hpp"

namespace sabot::host {

using link::Failure;
using link::FailureKind;
using link::Presence;
using schedule::RankMask;

namespace {

constexpr std::uint32_t kPollsPerClockRead = 16;
constexpr std::uint64_t kLookIntervalNs = 20'000'000;
constexpr std::uint64_t kAskIntervalNs = 100'000'000;

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

Code code_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::kMismatch: return Code::kInvalidUsage;
    case FailureKind::kDead:
    case FailureKind::kGone:
    case FailureKind::kDeclared: return Code::kRemote;
    case FailureKind::kInternal: break;
  }
  return Code::kInternal;
}

}  // namespace

Error Endpoint::error_of(const Failure& failure) const {
  return Error(code_of(failure.kind), failure.text).at_rank(rank_).about_peer(failure.culprit);
}

Error Endpoint::aborted_error() const {
  return Error(Code::kAborted,
               "this communicator was aborted by its own rank " + std::to_string(rank_))
      .at_rank(rank_);
}

Error Endpoint::poison(FailureKind kind, int culprit, const std::string& text) {
  return error_of(segment_->fail({kind, culprit, rank_, text}));
}

Error Endpoint::mismatch(int peer, std::uint64_t number, std::uint64_t mine, std::uint64_t theirs) {
  std::string text;
  if (number == 0) {
    text = rank_text(peer) + " sends " + describe_signature(theirs) + " to " + rank_text(rank_) +
           ", which receives " + describe_signature(mine) + " from it";
  } else {
    // The same words whoever notices: the higher rank is named first.
    const bool peer_first = peer > rank_;
    text = rank_text(peer_first ? peer : rank_) + " called " +
           describe_signature(peer_first ? theirs : mine) + ", but " +
           rank_text(peer_first ? rank_ : peer) + " called " +
           describe_signature(peer_first ? mine : theirs) + " (collective " +
           std::to_string(number) + " of this communicator)";
  }
  return poison(FailureKind::kMismatch, peer, text);
}

Progress Endpoint::fail(Task& task, Error error) {
  task.status_ = std::move(error);
  task.state_ = Task::State::kFailed;
  return Progress::kFailed;
}

Progress Endpoint::blocked(Task& task) {
  if (aborted()) return fail(task, aborted_error());
  if (segment_->failed()) return fail(task, error_of(*segment_->failure()));
  const std::uint64_t number = task.state_ == Task::State::kRunning ? task.number() : 0;
  Status looked = look(task.watch_, number, task.signature_);
  if (!looked.ok()) return fail(task, std::move(looked).error());
  return Progress::kBlocked;
}

Status Endpoint::look(Watch& watch, std::uint64_t number, std::uint64_t signature) {
  if (++watch.polls % kPollsPerClockRead != 0) return {};
  const std::uint64_t now = now_ns();
  if (watch.looked_at_ns == 0) watch.looked_at_ns = now;
  if (now - watch.looked_at_ns < kLookIntervalNs) return {};
  watch.looked_at_ns = now;
  return look_for_trouble(watch, number, signature);
}

// Who left or aborted may end its process; that concerns only those who still wait for it.
Status Endpoint::look_for_dead() {
  if (liveness_ == nullptr) return {};
  RankMask left = 0;
  for (int peer = 0; peer < world_; ++peer) {
    const Presence presence = segment_->presence(peer).load();
    if (presence == Presence::kLeft || presence == Presence::kAborted) left |= RankMask{1} << peer;
  }
  const auto dead = liveness_->check_except(left);
  if (!dead) return {};
  // It may have left after we looked and before its process ended.
  const Presence presence = segment_->presence(dead->rank).load();
  if (presence == Presence::kLeft || presence == Presence::kAborted) return {};
  return poison(FailureKind::kDead, dead->rank, rank_text(dead->rank) + " " + dead->what);
}

Status Endpoint::look_for_trouble(Watch& watch, std::uint64_t number, std::uint64_t signature) {
  for (int peer = 0; number != 0 && peer < world_; ++peer) {
    const auto theirs = segment_->recall(peer, number);
    if (theirs && *theirs != signature) return mismatch(peer, number, signature, *theirs);
  }
  SABOT_TRY(look_for_dead());
  // What a peer sent before it left counts; so only who was already gone at the last look, and
  // still has not sent what we polled for since, never will.
  RankMask gone = 0;
  for (int peer = 0; peer < world_; ++peer) {
    const RankMask bit = RankMask{1} << peer;
    const Presence presence = segment_->presence(peer).load();
    if (presence == Presence::kAbsent || presence == Presence::kPresent) continue;
    // A collective that a peer gave up cannot end everywhere, even if this rank has all it needs of
    // it.
    const bool gave_up = number != 0 && segment_->completed(peer).load() <= state_->base;
    if (!gave_up && (watch.waiting & bit) == 0) continue;
    gone |= bit;
    if ((watch.gone & bit) == 0) continue;
    return poison(FailureKind::kGone, peer,
                  rank_text(peer) + (presence == Presence::kAborted
                                         ? " aborted its communicator"
                                         : " destroyed its communicator while " + rank_text(rank_) +
                                               " still waits for it"));
  }
  watch.gone = gone;
  return {};
}

void Endpoint::declare_failed(int culprit, const std::string& text) {
  segment_->fail({FailureKind::kDeclared, culprit, rank_, text});
}

std::uint64_t Endpoint::entered(int rank) const {
  std::uint64_t newest = 0;
  for (std::uint64_t i = 0; i < link::kHistoryCount; ++i)
    newest = std::max(newest, segment_->history(rank, i).number.load());
  return newest;
}

Status Endpoint::async_error() {
  SABOT_TRY(usable());
  if (liveness_ == nullptr) return {};
  const std::uint64_t now = now_ns();
  std::uint64_t asked = state_->asked_at_ns.load();
  if (now - asked < kAskIntervalNs || !state_->asked_at_ns.compare_exchange_strong(asked, now))
    return {};
  return look_for_dead();
}

}  // namespace sabot::host
