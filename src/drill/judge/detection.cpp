// Who learned of the fault, how, and when.
//
// A rank knows that something is wrong when a call gives it an error, when it asks and is told, or
// when it aborts a comm other than on its way out; a rank that nobody told is out of it when its
// process ends in a job that fails, or when its next attempt begins. The earliest counts.
#include <algorithm>
#include <map>
#include <set>

#include "drill/judge/parts.hpp"
#include "scenario/print.hpp"

namespace sabot::drill {
namespace {

// Of two looks of the keeper one may miss the end of a process: what it saw last is that exact.
constexpr std::uint64_t kLookNs = 300'000'000;

std::string where_text(const run::JournalLine& line) {
  std::string text = rank_of(line) >= 0 ? "rank " + std::to_string(rank_of(line)) + ", " : "";
  text += line.function + " #" + std::to_string(line.nth);
  if (!line.comm.empty()) text += " on " + line.comm;
  return text + ", attempt " + std::to_string(line.attempt);
}

std::string action_text(const scenario::Fault& fault) {
  const std::string line = scenario::to_line(fault);
  const std::size_t equals = line.rfind("]=");
  const std::size_t plain = line.find('=');
  const std::size_t at = equals != std::string::npos ? equals + 2 : plain + 1;
  return at <= line.size() ? line.substr(at) : line;
}

bool is_error(run::SeenKind kind) {
  return kind == run::SeenKind::kError || kind == run::SeenKind::kAsyncError;
}

std::string how_text(run::SeenKind kind) {
  if (kind == run::SeenKind::kError) return "error";
  if (kind == run::SeenKind::kAsyncError) return "async error";
  return "abort";
}

// Known ranks, those of records and those that spoke.
std::set<int> known_ranks(const Evidence& evidence) {
  std::set<int> ranks;
  for (const run::AttachRecord& record : evidence.attached)
    if (record.attached && record.rank >= 0) ranks.insert(record.rank);
  for (const run::SeenLine& line : evidence.seen)
    if (rank_of(line) >= 0) ranks.insert(rank_of(line));
  for (const run::JournalLine& line : evidence.journal)
    if (rank_of(line) >= 0) ranks.insert(rank_of(line));
  return ranks;
}

void improve(RankSeen& rank, std::uint64_t fault_ns, RankSeen found) {
  if (found.detected_ns < fault_ns) return;
  if (!rank.how.empty() && rank.detected_ns <= found.detected_ns) return;
  found.rank = rank.rank;
  found.after_fault_ns = found.detected_ns - fault_ns;
  rank = std::move(found);
}

// Some applications abort their comms instead of destroying them when all is done.
bool is_farewell(const Evidence& evidence, const run::SeenLine& line) {
  if (line.kind != run::SeenKind::kAborted && line.kind != run::SeenKind::kRevoked) return false;
  const Ending& ending = evidence.ending;
  if (ending.stop != Stop::kNone || ending.exit_status != 0 || ending.signal != 0) return false;
  return std::none_of(evidence.seen.begin(), evidence.seen.end(), [&line](const auto& later) {
    return later.kind == run::SeenKind::kCreated && later.epoch_ns > line.epoch_ns &&
           rank_of(later) == rank_of(line);
  });
}

void look_at_words(const Evidence& evidence, std::uint64_t fault_ns, RankSeen& rank) {
  for (const run::SeenLine& line : evidence.seen) {
    const bool counts = is_error(line.kind) || line.kind == run::SeenKind::kAborted ||
                        line.kind == run::SeenKind::kRevoked;
    if (!counts || rank_of(line) != rank.rank || is_farewell(evidence, line)) continue;
    RankSeen found;
    found.attempt = line.attempt;
    found.how = how_text(line.kind);
    found.function = line.function;
    found.code = line.code;
    found.detected_ns = line.epoch_ns;
    improve(rank, fault_ns, std::move(found));
  }
}

// The processes that spoke for a rank: by their attach record, or, where one process has several
// ranks, by what they wrote.
std::vector<run::AttachRecord> processes_of(const Evidence& evidence, int rank) {
  std::vector<run::AttachRecord> out;
  for (const run::AttachRecord& record : evidence.attached)
    if (record.attached && record.rank == rank) out.push_back(record);
  const auto add = [&](std::int64_t pid, int attempt) {
    for (const run::AttachRecord& record : out)
      if (record.pid == pid) return;
    run::AttachRecord record;
    record.pid = pid;
    record.rank = rank;
    record.attempt = attempt;
    for (const run::AttachRecord& known : evidence.attached)
      if (known.pid == pid) record.started_ns = known.started_ns;
    out.push_back(std::move(record));
  };
  for (const run::SeenLine& line : evidence.seen)
    if (rank_of(line) == rank) add(line.pid, line.attempt);
  for (const run::JournalLine& line : evidence.journal)
    if (rank_of(line) == rank) add(line.pid, line.attempt);
  return out;
}

// When the keeper last saw a process; 0 if it never did.
std::uint64_t last_seen_ns(const Evidence& evidence, std::int64_t pid) {
  for (const ProcessLife& life : evidence.ending.processes)
    if (life.pid == pid) return life.last_ns;
  return 0;
}

// A process that ended with a job that succeeded, or that the drill ended, learned nothing.
bool ended_by_itself(const Evidence& evidence, std::uint64_t last_ns) {
  const Ending& ending = evidence.ending;
  if (ending.stop == Stop::kNone) return ending.exit_status != 0 || ending.signal != 0;
  return last_ns + kLookNs < ending.started_ns + evidence.deadline_ns;
}

void look_at_processes(const Evidence& evidence, std::uint64_t fault_ns, RankSeen& rank) {
  const std::vector<run::AttachRecord> processes = processes_of(evidence, rank.rank);
  for (const run::AttachRecord& record : processes) {
    RankSeen found;
    found.attempt = record.attempt;
    if (record.attempt > 0 && record.started_ns >= fault_ns) {
      found.how = "restarted";
      found.detected_ns = record.started_ns;
      improve(rank, fault_ns, std::move(found));
      continue;
    }
    const bool is_replaced =
        std::any_of(processes.begin(), processes.end(),
                    [&record](const auto& other) { return other.attempt > record.attempt; });
    std::uint64_t last_ns = last_seen_ns(evidence, record.pid);
    if (last_ns == 0 && evidence.ending.stop == Stop::kNone) last_ns = evidence.ending.finished_ns;
    if (last_ns == 0 || !(is_replaced || ended_by_itself(evidence, last_ns))) continue;
    found.how = "ended";
    // The process that fired the fault may be seen for the last time just before it did.
    found.detected_ns = record.started_ns <= fault_ns ? std::max(last_ns, fault_ns) : last_ns;
    improve(rank, fault_ns, std::move(found));
  }
}

}  // namespace

int rank_of(const run::JournalLine& line) {
  return line.world_rank >= 0 ? line.world_rank : line.rank;
}
int rank_of(const run::SeenLine& line) {
  return line.world_rank >= 0 ? line.world_rank : line.rank;
}

std::vector<const run::JournalLine*> firings_of(const Evidence& evidence) {
  std::vector<const run::JournalLine*> firings;
  for (const run::JournalLine& line : evidence.journal)
    if (line.injection == 0 && line.refused.empty()) firings.push_back(&line);
  return firings;
}

std::vector<FaultSeen> faults_seen(const Evidence& evidence) {
  std::vector<FaultSeen> out;
  for (std::size_t i = 0; i < evidence.scenario.faults.size(); ++i) {
    const scenario::Fault& fault = evidence.scenario.faults[i];
    FaultSeen seen;
    seen.name = fault.name;
    seen.action = action_text(fault);
    std::uint64_t refused_count = 0;
    for (const run::JournalLine& line : evidence.journal) {
      if (line.injection != 0 || line.fault != fault.name) continue;
      if (!line.refused.empty()) {
        ++refused_count;
        if (seen.refused.empty()) seen.refused = line.refused;
        continue;
      }
      if (seen.fired_count++ == 0) {
        seen.first_ns = line.epoch_ns;
        seen.where = where_text(line);
      }
    }
    // A firing that was refused has two lines: it was claimed, and then it did nothing.
    seen.fired_count -= std::min(seen.fired_count, refused_count);
    if (seen.fired_count == 0) {
      seen.first_ns = 0;
      if (i < evidence.why_unfired.size()) seen.why_not = evidence.why_unfired[i];
      if (!seen.refused.empty()) seen.why_not = "it was refused: " + seen.refused;
    }
    out.push_back(std::move(seen));
  }
  return out;
}

std::vector<RankSeen> ranks_seen(const Evidence& evidence, std::uint64_t fault_ns) {
  std::vector<RankSeen> out;
  for (const int number : known_ranks(evidence)) {
    RankSeen rank;
    rank.rank = number;
    if (fault_ns != 0) {
      look_at_words(evidence, fault_ns, rank);
      if (rank.how.empty()) look_at_processes(evidence, fault_ns, rank);
    }
    out.push_back(std::move(rank));
  }
  return out;
}

std::optional<std::uint64_t> recovery_of(const Evidence& evidence, std::uint64_t fault_ns) {
  if (fault_ns == 0) return std::nullopt;
  std::uint64_t told_ns = 0;
  for (const run::SeenLine& line : evidence.seen)
    if (is_error(line.kind) && line.epoch_ns >= fault_ns && told_ns == 0) told_ns = line.epoch_ns;
  // The first comm of each rank after that; the slowest rank counts.
  std::map<int, std::uint64_t> made;
  for (const run::SeenLine& line : evidence.seen)
    if (line.kind == run::SeenKind::kCreated && line.epoch_ns >= std::max(told_ns, fault_ns))
      made.emplace(rank_of(line), line.epoch_ns);
  std::uint64_t last_ns = 0;
  for (const auto& [rank, time_ns] : made) last_ns = std::max(last_ns, time_ns);
  if (last_ns == 0)
    for (const run::AttachRecord& record : evidence.attached)
      if (record.attempt > 0 && record.started_ns >= fault_ns)
        last_ns = std::max(last_ns, record.started_ns);
  if (last_ns == 0) return std::nullopt;
  return last_ns - fault_ns;
}

std::uint64_t attempts_of(const Evidence& evidence) {
  int last = -1;
  for (const run::AttachRecord& record : evidence.attached)
    if (record.attached) last = std::max(last, record.attempt);
  for (const run::SeenLine& line : evidence.seen) last = std::max(last, line.attempt);
  return static_cast<std::uint64_t>(last + 1);
}

}  // namespace sabot::drill
