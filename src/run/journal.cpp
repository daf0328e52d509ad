// Writing the journal of one process.
#include "run/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "run/identity.hpp"
#include "run/json_writer.hpp"

namespace sabot::run {
namespace {

void put_text(JsonWriter& json, const char* name, std::string_view text) {
  if (!text.empty()) json.field(name, text);
}

template <typename T>
void put_positive(JsonWriter& json, const char* name, T number) {
  if (number > 0) json.field(name, number);
}

void put_rank(JsonWriter& json, const char* name, int rank) {
  if (rank >= 0) json.field(name, rank);
}

}  // namespace

std::string to_json_line(const JournalEntry& entry) {
  const Now time = now();
  JsonWriter json;
  json.begin_object();
  json.field("time_ns", time.epoch_ns).field("monotonic_ns", time.monotonic_ns);
  json.field("host", host_name()).field("pid", ::getpid());
  json.field("thread", entry.thread != 0 ? entry.thread : thread_id());
  json.field("attempt", entry.attempt);
  put_text(json, "scenario", entry.scenario);
  json.field("fault", entry.fault);
  put_text(json, "action", entry.action);
  put_text(json, "code", entry.code);
  put_text(json, "phase", entry.phase);
  json.field("function", entry.function);
  put_text(json, "comm", entry.comm);
  put_text(json, "comm_name", entry.comm_name);
  put_positive(json, "comm_ranks", entry.comm_ranks);
  put_rank(json, "rank", entry.rank);
  put_rank(json, "world_rank", entry.world_rank);
  put_positive(json, "nth", entry.nth);
  put_positive(json, "nth_collective", entry.nth_collective);
  if (entry.has_count) json.field("count", entry.count).field("bytes", entry.bytes);
  put_text(json, "datatype", entry.datatype);
  put_text(json, "redop", entry.redop);
  put_rank(json, "root", entry.root);
  put_rank(json, "peer", entry.peer);
  if (entry.in_place) json.field("in_place", true);
  if (entry.captured) json.field("captured", true);
  put_positive(json, "group", entry.group);
  put_positive(json, "group_position", entry.group_position);
  put_positive(json, "match", entry.match);
  put_positive(json, "budget_claim", entry.budget_claim);
  put_positive(json, "budget_limit", entry.budget_limit);
  put_positive(json, "injection", entry.injection);
  json.end_object();
  return json.take();
}

Journal::~Journal() {
  const int fd = fd_.load();
  if (fd >= 0) ::close(fd);
}

void Journal::open(const std::string& folder, const std::string& tag, Sink sink, void* context) {
  path_ = folder.empty() ? "" : folder + "/journal/" + tag + ".jsonl";
  sink_ = sink;
  context_ = context;
  owner_pid_.store(::getpid());
}

Result<int> Journal::descriptor() {
  const int held = fd_.load();
  if (held >= 0) return held;
  const int opened = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (opened < 0)
    return Error(Code::kSystem, "cannot open the journal '" + path_ + "': " + errno_text(errno));
  // Two threads may fire their first fault at once: the later one uses the descriptor of the
  // earlier.
  int none = -1;
  if (fd_.compare_exchange_strong(none, opened)) return opened;
  ::close(opened);
  return none;
}

Status Journal::append(const JournalEntry& entry) { return append_line(to_json_line(entry)); }

Status Journal::append_line(std::string line) {
  // The process id is compared as well, for forks that no handler has seen (clone, vfork).
  if (owner_pid_.load() != ::getpid())
    return Error(Code::kInvalidUsage, "this process was forked and has no journal of its own");
  if (sink_ != nullptr) sink_(line, context_);
  if (path_.empty()) return {};
  const int fd = SABOT_TRY(descriptor());
  line.push_back('\n');
  ssize_t written = 0;
  do {
    written = ::write(fd, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return {};
  return Error(Code::kSystem, "cannot append to the journal '" + path_ +
                                  "': " + (written < 0 ? errno_text(errno) : errno_text(ENOSPC)));
}

void Journal::after_fork_child() noexcept {
  const int fd = fd_.exchange(-1);
  if (fd >= 0) ::close(fd);
  owner_pid_.store(0);
}

}  // namespace sabot::run
