// Positions are in percent of the run, so that a page of any width can use them.
#include "drill/report/timeline.hpp"

#include <algorithm>
#include <map>

#include "drill/report/text.hpp"

namespace sabot::drill::report {
namespace {

constexpr std::size_t kTicksMax = 5;
constexpr double kLastTickPercent = 72;  // beyond it stands the duration

bool is_drawn(EventKind kind) {
  switch (kind) {
    case EventKind::kFault:
    case EventKind::kDetection:
    case EventKind::kAbort:
    case EventKind::kRestart:
    case EventKind::kEnded:
    case EventKind::kDeadline: return true;
    case EventKind::kStart:      // where the bars begin
    case EventKind::kEnd:        // where the lanes end
    case EventKind::kCreated:    // many, and of little interest
    case EventKind::kDestroyed:  // likewise
      break;
  }
  return false;
}

double percent_of(const Case& one, std::uint64_t time_ns) {
  if (time_ns <= one.started_ns) return 0;
  const auto offset = static_cast<double>(time_ns - one.started_ns);
  return std::min(100.0, 100.0 * offset / static_cast<double>(one.duration_ns()));
}

std::string mark_text(const Case& one, const Event& event) {
  std::string text = offset_text(one, event.time_ns) + " " + std::string(word_of(event.kind));
  if (!event.text.empty()) text += ": " + event.text;
  return text;
}

void add_mark(Lane& lane, const Case& one, const Event& event) {
  const double percent = percent_of(one, event.time_ns);
  if (!lane.marks.empty()) {
    Mark& last = lane.marks.back();
    if (last.kind == event.kind && percent - last.percent < kMarkGapPercent) {
      ++last.count;
      if (last.count <= kMarkTextsMax) last.text += "\n" + mark_text(one, event);
      return;
    }
  }
  lane.marks.push_back({percent, event.kind, 1, mark_text(one, event)});
}

// To the right first; what then stands beyond the end is pushed back.
void move_apart(std::vector<Mark>& marks) {
  for (std::size_t i = 1; i < marks.size(); ++i)
    marks[i].percent = std::max(marks[i].percent, marks[i - 1].percent + kMarkGapPercent);
  double limit = 100;
  for (std::size_t i = marks.size(); i-- > 0; limit -= kMarkGapPercent)
    marks[i].percent = std::max(0.0, std::min(marks[i].percent, limit));
}

// The attempts of one rank: each lasts from its restart until its process ended or the next began.
std::vector<Bar> bars_of(const Case& one, int rank) {
  std::vector<Bar> bars;
  bool is_open = true;
  Bar current;
  const auto close = [&](std::uint64_t time_ns) {
    if (!is_open) return;
    current.to_percent = percent_of(one, time_ns);
    bars.push_back(current);
    is_open = false;
  };
  for (const Event& event : one.events) {
    if (event.rank != rank) continue;
    if (event.kind == EventKind::kEnded) close(event.time_ns);
    if (event.kind != EventKind::kRestart) continue;
    close(event.time_ns);
    current = {percent_of(one, event.time_ns), 0, event.attempt};
    is_open = true;
  }
  close(one.finished_ns);
  return bars;
}

std::vector<Tick> ticks_of(const Case& one) {
  const std::uint64_t duration_ns = one.duration_ns();
  std::uint64_t step = 1;
  for (const std::uint64_t factor : {2, 5, 10})  // the first of 1, 2, 5, 10, 20, … that is enough
    if (duration_ns / step > kTicksMax) step = factor;
  for (std::uint64_t decade = 1; duration_ns / step > kTicksMax; decade *= 10)
    for (const std::uint64_t factor : {10, 20, 50})
      if (duration_ns / step > kTicksMax) step = factor * decade;
  std::vector<Tick> ticks;
  const auto total = static_cast<double>(duration_ns);
  for (std::uint64_t at = 0; at <= duration_ns; at += step) {
    const double percent = 100.0 * static_cast<double>(at) / total;
    if (percent > kLastTickPercent) break;
    ticks.push_back({percent, at == 0 ? "0" : duration_text(at)});
  }
  ticks.push_back({100, duration_text(duration_ns)});
  return ticks;
}

}  // namespace

std::string offset_text(const Case& one, std::uint64_t time_ns) {
  return time_ns >= one.started_ns ? "+" + duration_text(time_ns - one.started_ns)
                                   : "-" + duration_text(one.started_ns - time_ns);
}

Timeline timeline_of(const Case& one) {
  Timeline timeline;
  if (one.duration_ns() == 0) return timeline;
  std::map<int, Lane> lanes;  // the job comes first
  for (const RankSeen& seen : one.ranks) lanes[seen.rank];
  for (const Event& event : one.events) {
    if (event.rank < 0 && !is_drawn(event.kind)) continue;
    Lane& lane = lanes[event.rank];
    if (is_drawn(event.kind)) add_mark(lane, one, event);
  }
  if (lanes.empty()) lanes[-1];
  for (auto& [rank, lane] : lanes) {
    lane.rank = rank;
    lane.bars = bars_of(one, rank);
    move_apart(lane.marks);
    timeline.lanes.push_back(std::move(lane));
  }
  timeline.ticks = ticks_of(one);
  return timeline;
}

}  // namespace sabot::drill::report
