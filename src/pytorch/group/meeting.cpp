// A store may outlive the processes: after a restart by torchrun it still has the keys of the
// attempt before. So every rank comes with a token of its own, and nothing is believed that does
// not carry the tokens of those who are here now:
//   sabot/here/R           rank R's token
//   sabot/offer            rank 0's: its token, the tokens it saw, and the unique id or why none
//   sabot/taken/R          rank R has seen its token in the offer: both tokens
//   sabot/TOKEN/failed     "rank R: why" of a rank that could not make its communicator
//   sabot/TOKEN/barrier/…  the monitored barriers; TOKEN is rank 0's
#include "pytorch/group/meeting.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "pytorch/library.hpp"
#include "pytorch/thread.hpp"

namespace sabot::pytorch {
namespace {

using std::chrono::milliseconds;

// How often a rank that waits for its communicator asks whether another rank gave up.
constexpr milliseconds kAskEvery{50};
// How often a rank looks at the store again that had keys of an earlier attempt.
constexpr milliseconds kLookEvery{2};

using Bytes = std::vector<std::uint8_t>;
Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

std::string key_of(const std::string& what, int rank) {
  return "sabot/" + what + "/" + std::to_string(rank);
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

bool has(::c10d::Store& store, const std::string& key) { return store.check({key}); }

// Waits for a key of each of these ranks; those that are still missing when time is over.
std::vector<int> missing_after(::c10d::Store& store, const std::string& what,
                               const std::vector<int>& ranks, milliseconds timeout) {
  std::vector<std::string> keys;
  for (const int rank : ranks) keys.push_back(key_of(what, rank));
  try {
    store.wait(keys, timeout);
    return {};
  } catch (const std::exception&) {
    std::vector<int> missing;
    for (const int rank : ranks) {
      if (!has(store, key_of(what, rank))) missing.push_back(rank);
    }
    if (missing.empty()) throw;  // not a timeout: the store itself failed
    return missing;
  }
}

// What rank 0 offers: "TOKEN0 TOKEN1 …\n" and the id, or "!" and why there is none.
struct Offer {
  std::vector<std::string> tokens;  // by rank
  std::string rest;

  std::string text() const {
    std::string line;
    for (const std::string& token : tokens) line += token + " ";
    return line + "\n" + rest;
  }
  static Offer parse(const std::string& text) {
    Offer offer;
    const std::size_t end = text.find('\n');
    std::string token;
    for (const char letter : text.substr(0, end)) {
      if (letter != ' ') {
        token += letter;
      } else {
        offer.tokens.push_back(std::exchange(token, {}));
      }
    }
    offer.rest = end == std::string::npos ? "" : text.substr(end + 1);
    return offer;
  }
};

std::string new_token() {
  static std::atomic<unsigned> made{0};
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) {
    random = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  }
  char token[64];
  std::snprintf(token, sizeof token, "%d-%u-%016llx", ::getpid(), ++made,
                static_cast<unsigned long long>(random));
  return token;
}

std::string taken_text(const Offer& offer, int rank) {
  return offer.tokens.front() + " " + offer.tokens[static_cast<std::size_t>(rank)];
}

[[noreturn]] void nobody_came(const Member& member, const std::vector<int>& missing) {
  throw_backend_error("sabot: rank " + std::to_string(member.rank) + " of group " + member.group +
                      " waited " + std::to_string(member.timeout.count()) + " ms for " +
                      list_of(missing) +
                      ", which did not come; see whether that process is running and creates the "
                      "same groups in the same order");
}

std::vector<int> others_than(int rank, int size) {
  std::vector<int> others;
  for (int other = 0; other < size; ++other) {
    if (other != rank) others.push_back(other);
  }
  return others;
}

// Rank 0: offers until everybody has taken what was offered.
void offer_until_taken(::c10d::Store& store, const Member& member, Offer& offer) {
  const auto deadline = Clock::now() + member.timeout;
  const std::vector<int> others = others_than(0, member.size);
  const std::vector<int> missing = missing_after(store, "here", others, member.timeout);
  if (!missing.empty()) nobody_came(member, missing);
  std::string offered;
  for (;;) {
    for (const int rank : others) {
      offer.tokens[static_cast<std::size_t>(rank)] = text_of(store.get(key_of("here", rank)));
    }
    if (offer.text() != offered) store.set("sabot/offer", bytes_of(offered = offer.text()));
    std::vector<int> waited_for;
    for (const int rank : others) {
      const std::string key = key_of("taken", rank);
      if (!has(store, key) || text_of(store.get(key)) != taken_text(offer, rank)) {
        waited_for.push_back(rank);
      }
    }
    if (waited_for.empty()) return;
    if (Clock::now() > deadline) nobody_came(member, waited_for);
    std::this_thread::sleep_for(kLookEvery);
  }
}

// Another rank: waits for the offer that is meant for it.
Offer take_offer(::c10d::Store& store, const Member& member, const std::string& token) {
  const auto deadline = Clock::now() + member.timeout;
  const auto mine = static_cast<std::size_t>(member.rank);
  try {
    store.wait({"sabot/offer"}, member.timeout);
  } catch (const std::exception&) {
    const auto others = others_than(member.rank, member.size);
    const auto missing = missing_after(store, "here", others, milliseconds(1));
    nobody_came(member, missing.empty() ? std::vector<int>{0} : missing);
  }
  for (;;) {
    Offer offer = Offer::parse(text_of(store.get("sabot/offer")));
    if (offer.tokens.size() == static_cast<std::size_t>(member.size) &&
        offer.tokens[mine] == token) {
      store.set(key_of("taken", member.rank), bytes_of(taken_text(offer, member.rank)));
      return offer;
    }
    if (Clock::now() > deadline) nobody_came(member, {0});
    std::this_thread::sleep_for(kLookEvery);
  }
}

std::string bytes_text(const ncclUniqueId& id) { return {id.internal, sizeof id.internal}; }

// All ranks get rank 0's id, and the session they share.
ncclUniqueId agree_on_id(::c10d::Store& store, Member& member) {
  ncclUniqueId id{};
  const std::string token = new_token();
  member.session = token;
  if (member.rank == 0) {
    const ncclResult_t made = library().GetUniqueId(&id);
    const std::string why = is_success(made) ? ""
                                             : error_text(made, library().GetLastError(nullptr),
                                                          Style::kBackendError, here());
    Offer offer{std::vector<std::string>(static_cast<std::size_t>(member.size)),
                why.empty() ? bytes_text(id) : "!" + why};
    offer.tokens.front() = token;
    if (member.size > 1) {
      store.set(key_of("here", 0), bytes_of(token));
      offer_until_taken(store, member, offer);
    }
    if (!why.empty()) throw_backend_error(why);
    return id;
  }
  store.set(key_of("here", member.rank), bytes_of(token));
  const Offer offer = take_offer(store, member, token);
  member.session = offer.tokens.front();
  if (offer.rest.size() == sizeof id.internal) {
    std::memcpy(id.internal, offer.rest.data(), sizeof id.internal);
    return id;
  }
  throw_backend_error("sabot: rank 0 of group " + member.group +
                      " could not make the unique id: " + offer.rest.substr(1));
}

// What the thread that makes the communicator and the one that waits for it share.
struct Making {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  ncclComm_t comm = nullptr;
  ncclResult_t code = ncclSuccess;
  std::string why;
};

void make_comm(const std::shared_ptr<Making>& making, int size, const ncclUniqueId& id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = nullptr;
  const ncclResult_t code = library().CommInitRankConfig(&comm, size, id, rank, &config);
  const std::string why = code == ncclSuccess ? "" : library().GetLastError(nullptr);
  const std::lock_guard<std::mutex> lock(making->mutex);
  making->comm = comm;
  making->code = code;
  making->why = why;
  making->is_done = true;
  making->changed.notify_all();
}

std::string failed_key(const Member& member) { return "sabot/" + member.session + "/failed"; }

// Waits for it, and for bad news from other ranks meanwhile.
void await_comm(Making& making, ::c10d::Store& store, const Member& member) {
  const auto deadline = Clock::now() + member.timeout;
  std::unique_lock<std::mutex> lock(making.mutex);
  while (!making.changed.wait_for(lock, kAskEvery, [&] { return making.is_done; })) {
    lock.unlock();
    if (const std::string failed = failed_key(member); has(store, failed)) {
      throw_backend_error("sabot: the communicator of group " + member.group +
                          " was not made: " + text_of(store.get(failed)));
    }
    if (Clock::now() > deadline) {
      throw_backend_error("sabot: rank " + std::to_string(member.rank) + " of group " +
                          member.group + " waited " + std::to_string(member.timeout.count()) +
                          " ms for the others to make the communicator");
    }
    lock.lock();
  }
}

}  // namespace

ncclComm_t meet(::c10d::Store& store, Member& member) {
  const ncclUniqueId id = agree_on_id(store, member);
  auto making = std::make_shared<Making>();
  if (member.size == 1) {
    make_comm(making, 1, id, 0);
  } else {
    const auto make = [making, id, size = member.size, rank = member.rank] {
      make_comm(making, size, id, rank);
    };
    if (!start_thread("sabot-meeting", make)) {
      throw_backend_error("sabot: no thread could be started to make a communicator");
    }
    await_comm(*making, store, member);
  }
  if (is_success(making->code)) return making->comm;
  const std::string why = error_text(making->code, making->why, Style::kBackendError, here());
  const std::string failed = failed_key(member);
  if (member.size > 1 && !has(store, failed)) {
    store.set(failed, bytes_of("rank " + std::to_string(member.rank) + ": " + why));
  }
  throw_backend_error(why);
}

void monitored_barrier(::c10d::Store& store, const Member& member, std::uint64_t round,
                       milliseconds timeout, bool all_ranks) {
  if (timeout.count() <= 0) {
    const std::string rank = std::to_string(member.rank);
    throw_backend_error("[Rank " + rank + "]: Rank " + rank +
                        " timed out in monitoredBarrier after 0 ms");
  }
  const std::string name = member.session + "/barrier/" + std::to_string(round);
  const std::string go = "sabot/" + name + "/go";
  if (member.rank != 0) {
    store.set(key_of(name, member.rank), bytes_of("1"));
    try {
      store.wait({go}, timeout);
    } catch (const std::exception&) {
      throw_backend_error("[Rank " + std::to_string(member.rank) +
                          "]: Rank 0 failed to pass monitoredBarrier in " +
                          std::to_string(timeout.count()) + " ms");
    }
    const std::string answer = text_of(store.get(go));
    if (answer != "ok") throw_backend_error(answer);
    return;
  }
  const auto deadline = Clock::now() + timeout;
  std::vector<int> missing;
  for (int rank = 1; rank < member.size; ++rank) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (!missing_after(store, name, {rank}, std::max(left, milliseconds(1))).empty()) {
      missing.push_back(rank);
      if (!all_ranks) break;
    }
  }
  std::string answer = "ok";
  if (!missing.empty()) {
    std::string ranks = list_of(missing);
    ranks.front() = 'R';
    answer = "[Rank 0]: " + ranks + " failed to pass monitoredBarrier in " +
             std::to_string(timeout.count()) + " ms";
  }
  store.set(go, bytes_of(answer));
  if (answer != "ok") throw_backend_error(answer);
}

}  // namespace sabot::pytorch
