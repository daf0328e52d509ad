// The parts of judging, each a pure function; judge() puts them together.
#pragma once

#include <string>
#include <vector>

#include "drill/judge/evidence.hpp"
#include "drill/result.hpp"

namespace sabot::drill {

// The world rank of a record where it is known, else the rank in the comm.
int rank_of(const run::JournalLine& line);
int rank_of(const run::SeenLine& line);

// Firings of faults of the scenario that did something, in the order of time.
std::vector<const run::JournalLine*> firings_of(const Evidence& evidence);
std::vector<FaultSeen> faults_seen(const Evidence& evidence);

// One entry for each rank that is known, by rank.
std::vector<RankSeen> ranks_seen(const Evidence& evidence, std::uint64_t fault_ns);
// From the fault until every rank had a comm again, or the next attempt began; nothing if neither
// came.
std::optional<std::uint64_t> recovery_of(const Evidence& evidence, std::uint64_t fault_ns);
std::uint64_t attempts_of(const Evidence& evidence);

struct Verdict {
  Outcome outcome = Outcome::kNotRecorded;
  std::string note;  // what speaks for it, as a clause: "it had not ended after 120s"
};
// one: what is known so far; faults, ranks and attempts are.
Verdict outcome_of(const Evidence& evidence, const Case& one);
std::string status_text(const Ending& ending, std::uint64_t deadline_ns);
// The signal that ended the command, be it told by `sabot run` as 128 + N; 0 = none.
int signal_of(const Ending& ending);

std::vector<Event> events_of(const Evidence& evidence);

// Precondition: all else of the case is filled in. why: Verdict::note.
std::vector<Requirement> requirements_of(const Evidence& evidence, const Case& one,
                                         const std::string& why);

}  // namespace sabot::drill
