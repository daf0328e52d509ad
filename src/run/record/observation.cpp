// Writing down what the application was told.
#include "run/record/observation.hpp"

#include <unistd.h>

#include "base/random.hpp"
#include "run/identity.hpp"
#include "run/json_writer.hpp"

namespace sabot::run {
namespace {

constexpr std::string_view kWords[kSeenKindCount] = {"error",   "async-error", "created",
                                                     "aborted", "revoked",     "destroyed"};

bool is_error(SeenKind kind) { return kind == SeenKind::kError || kind == SeenKind::kAsyncError; }

// Errors that differ in kind, code, comm or rank are told apart; those of a rank's next attempt
// come from another process.
std::uint64_t key_of(const SeenEntry& entry) {
  std::uint64_t key = mix(static_cast<std::uint64_t>(entry.kind), hash_text(entry.code));
  key = mix(key, hash_text(entry.comm));
  key = mix(key, mix(static_cast<std::uint64_t>(entry.rank),
                     static_cast<std::uint64_t>(entry.world_rank)));
  return key == 0 ? 1 : key;
}

}  // namespace

std::string_view word_of(SeenKind kind) { return kWords[static_cast<std::size_t>(kind)]; }

std::string to_json_line(const SeenEntry& entry) {
  const Now time = now();
  JsonWriter json;
  json.begin_object();
  json.field("time_ns", time.epoch_ns).field("host", host_name()).field("pid", ::getpid());
  json.field("thread", entry.thread != 0 ? entry.thread : thread_id());
  json.field("attempt", entry.attempt).field("seen", word_of(entry.kind));
  json.field("function", entry.function);
  if (!entry.code.empty()) json.field("code", entry.code);
  if (!entry.comm.empty()) json.field("comm", entry.comm);
  if (entry.rank >= 0) json.field("rank", entry.rank);
  if (entry.world_rank >= 0) json.field("world_rank", entry.world_rank);
  if (entry.nth > 0) json.field("nth", entry.nth);
  if (entry.injected) json.field("injected", true);
  json.end_object();
  return json.take();
}

void Observation::open(const std::string& folder, const std::string& tag) {
  is_open_ = !folder.empty();
  file_.open(is_open_ ? folder + "/seen/" + tag + ".jsonl" : "");
}

// The set only grows, so that a slot once taken stays what it is: no order between slots matters.
bool Observation::is_first(std::uint64_t key) {
  for (std::atomic<std::uint64_t>& slot : known_) {
    std::uint64_t held = slot.load();
    if (held == 0 && slot.compare_exchange_strong(held, key)) return true;
    if (held == key) return false;
  }
  return false;
}

Status Observation::note(const SeenEntry& entry) {
  if (!is_open_ || !file_.is_owner()) return {};
  std::atomic<std::size_t>& count = is_error(entry.kind) ? errors_ : lives_;
  if (is_error(entry.kind) && !is_first(key_of(entry))) return {};
  if (count.fetch_add(1) >= kLinesMax / 2) return {};
  return file_.append(to_json_line(entry));
}

}  // namespace sabot::run
