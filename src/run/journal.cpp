// Writing the journal of one process.
#include "run/journal.hpp"

#include <unistd.h>

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
  put_text(json, "refused", entry.refused);
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

void Journal::open(const std::string& folder, const std::string& tag, Sink sink, void* context) {
  file_.open(folder.empty() ? "" : folder + "/journal/" + tag + ".jsonl");
  sink_ = sink;
  context_ = context;
}

Status Journal::append(const JournalEntry& entry) { return append_line(to_json_line(entry)); }

Status Journal::append_line(std::string line) {
  if (sink_ != nullptr && file_.is_owner()) sink_(line, context_);
  return file_.append(std::move(line));
}

}  // namespace sabot::run
