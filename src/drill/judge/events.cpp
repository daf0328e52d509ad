// What happened in which order, for the timeline.
#include <algorithm>
#include <set>

#include "drill/judge/parts.hpp"

namespace sabot::drill {
namespace {

// Enough for a page; a fault that fires for ever would fill it with one line over and over.
constexpr std::size_t kEventsMax = 500;

EventKind kind_of(run::SeenKind kind) {
  switch (kind) {
    case run::SeenKind::kError:
    case run::SeenKind::kAsyncError: return EventKind::kDetection;
    case run::SeenKind::kAborted:
    case run::SeenKind::kRevoked: return EventKind::kAbort;
    case run::SeenKind::kCreated: return EventKind::kCreated;
    case run::SeenKind::kDestroyed: return EventKind::kDestroyed;
  }
  return EventKind::kDetection;
}

std::string text_of(const run::JournalLine& line) {
  std::string text =
      line.fault + ": " + line.action + " at " + line.function + " #" + std::to_string(line.nth);
  if (!line.comm.empty()) text += " on " + line.comm;
  if (!line.refused.empty()) text += ", refused: " + line.refused;
  return text;
}

std::string text_of(const run::SeenLine& line) {
  std::string text = line.function;
  if (line.kind == run::SeenKind::kError) text += " returned " + line.code;
  if (line.kind == run::SeenKind::kAsyncError) text += " reported " + line.code;
  if (!line.comm.empty()) text += " on " + line.comm;
  return text + (line.injected ? " (injected)" : "");
}

void add_processes(const Evidence& evidence, std::vector<Event>& events) {
  std::set<std::pair<int, int>> begun;  // rank, attempt
  for (const run::AttachRecord& record : evidence.attached) {
    if (!record.attached) continue;
    if (record.attempt > 0 && begun.insert({record.rank, record.attempt}).second)
      events.push_back({EventKind::kRestart, record.started_ns, record.rank, record.attempt,
                        "attempt " + std::to_string(record.attempt) + " began in process " +
                            std::to_string(record.pid)});
    for (const ProcessLife& life : evidence.ending.processes)
      if (life.pid == record.pid)
        events.push_back({EventKind::kEnded, life.last_ns, record.rank, record.attempt,
                          "process " + std::to_string(record.pid) + " ended"});
  }
}

}  // namespace

std::vector<Event> events_of(const Evidence& evidence) {
  std::vector<Event> events;
  const Ending& ending = evidence.ending;
  if (!ending.started) return events;
  events.push_back({EventKind::kStart, ending.started_ns, -1, 0, "the command was started"});
  for (const run::JournalLine& line : evidence.journal)
    if (line.injection == 0)
      events.push_back(
          {EventKind::kFault, line.epoch_ns, rank_of(line), line.attempt, text_of(line)});
  for (const run::SeenLine& line : evidence.seen)
    events.push_back(
        {kind_of(line.kind), line.epoch_ns, rank_of(line), line.attempt, text_of(line)});
  add_processes(evidence, events);
  if (ending.stop == Stop::kDeadline)
    events.push_back({EventKind::kDeadline, ending.started_ns + evidence.deadline_ns, -1, 0,
                      "the deadline came; everything was ended"});
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.time_ns < b.time_ns; });
  if (events.size() > kEventsMax) events.resize(kEventsMax);
  events.push_back(
      {EventKind::kEnd, ending.finished_ns, -1, 0, status_text(ending, evidence.deadline_ns)});
  return events;
}

}  // namespace sabot::drill
