// Keys in the store, all of them under the prefix that torch gave this group:
//   sabot/here/R     rank R has come
//   sabot/id         the unique id, or "!" and why there is none
//   sabot/failed     "rank R: why" of the first rank that could not make its communicator
//   sabot/barrier/…  the monitored barriers
#include "pytorch/group/meeting.hpp"

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "pytorch/library.hpp"
#include "pytorch/thread.hpp"

namespace sabot::pytorch {
namespace {

using std::chrono::milliseconds;

// How often a rank that waits for its communicator asks whether another rank gave up.
constexpr milliseconds kAskEvery{50};

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

void wait_for_all(::c10d::Store& store, const Member& member) {
  store.set(key_of("here", member.rank), bytes_of("1"));
  std::vector<int> all;
  for (int rank = 0; rank < member.size; ++rank) all.push_back(rank);
  const std::vector<int> missing = missing_after(store, "here", all, member.timeout);
  if (missing.empty()) return;
  throw_backend_error("sabot: rank " + std::to_string(member.rank) + " of group " + member.group +
                      " waited " + std::to_string(member.timeout.count()) + " ms for " +
                      list_of(missing) +
                      ", which did not come; see whether that process is running and creates the "
                      "same groups in the same order");
}

ncclUniqueId agree_on_id(::c10d::Store& store, const Member& member) {
  ncclUniqueId id{};
  if (member.rank == 0) {
    const ncclResult_t made = library().GetUniqueId(&id);
    if (made != ncclSuccess) {
      const std::string why = error_text(made, library().GetLastError(nullptr),
                                         Style::kBackendError, here());
      if (member.size > 1) store.set("sabot/id", bytes_of("!" + why));
      throw_backend_error(why);
    }
    if (member.size > 1) {
      store.set("sabot/id", Bytes(id.internal, id.internal + sizeof id.internal));
    }
    return id;
  }
  store.wait({"sabot/id"}, member.timeout);
  const Bytes bytes = store.get("sabot/id");
  if (bytes.size() == sizeof id.internal) {
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    return id;
  }
  throw_backend_error("sabot: rank 0 of group " + member.group +
                      " could not make the unique id: " + text_of(bytes).substr(1));
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

// Waits for it, and for bad news from other ranks meanwhile.
void await_comm(Making& making, ::c10d::Store& store, const Member& member) {
  const auto deadline = Clock::now() + member.timeout;
  std::unique_lock<std::mutex> lock(making.mutex);
  while (!making.changed.wait_for(lock, kAskEvery, [&] { return making.is_done; })) {
    lock.unlock();
    if (has(store, "sabot/failed")) {
      throw_backend_error("sabot: the communicator of group " + member.group +
                          " was not made: " + text_of(store.get("sabot/failed")));
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

ncclComm_t meet(const StoreRef& store, const Member& member) {
  if (member.size > 1) wait_for_all(*store, member);
  const ncclUniqueId id = agree_on_id(*store, member);
  auto making = std::make_shared<Making>();
  if (member.size == 1) {
    make_comm(making, 1, id, 0);
  } else {
    const auto make = [making, id, size = member.size, rank = member.rank] {
      make_comm(making, size, id, rank);
    };
    if (!run_behind("sabot-meeting", make)) {
      throw_backend_error("sabot: no thread could be started to make a communicator");
    }
    await_comm(*making, *store, member);
  }
  if (making->code == ncclSuccess) return making->comm;
  const std::string why = error_text(making->code, making->why, Style::kBackendError, here());
  if (member.size > 1 && !has(*store, "sabot/failed")) {
    store->set("sabot/failed", bytes_of("rank " + std::to_string(member.rank) + ": " + why));
  }
  throw_backend_error(why);
}

void monitored_barrier(::c10d::Store& store, const Member& member, std::uint64_t round,
                       milliseconds timeout, bool all_ranks) {
  const std::string name = "barrier/" + std::to_string(round);
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
