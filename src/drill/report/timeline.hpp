// A case as lanes over time: what a page draws, as numbers. Pure.
//
// One lane for the job where something happened to it as a whole, one for each rank that is known.
// A bar is an attempt of a rank, from its beginning until its process ended; a mark is something
// that happened. Marks of one kind that would cover each other are one mark with a count; others
// are moved apart, in their order: a reader sees what came first, and the exact times in the texts.
#pragma once

#include <string>
#include <vector>

#include "drill/result.hpp"

namespace sabot::drill::report {

struct Bar {
  double from_percent = 0;  // of the run's duration
  double to_percent = 0;
  int attempt = 0;
};

struct Mark {
  double percent = 0;  // where it is drawn
  EventKind kind = EventKind::kFault;
  std::uint64_t count = 1;
  std::string text;  // of all that it stands for, a line each
};

struct Lane {
  int rank = -1;  // -1: the job
  std::vector<Bar> bars;
  std::vector<Mark> marks;
};

struct Tick {
  double percent = 0;
  std::string label;
};

struct Timeline {
  std::vector<Lane> lanes;  // empty: there is nothing to draw
  std::vector<Tick> ticks;
};

// Two marks are at least this far apart, as long as a lane has room for that.
inline constexpr double kMarkGapPercent = 4.5;
// What a mark tells of the events that it stands for; the list of events has them all.
inline constexpr std::uint64_t kMarkTextsMax = 5;

Timeline timeline_of(const Case& one);

// "+1.5s", from the beginning of the case.
std::string offset_text(const Case& one, std::uint64_t time_ns);

}  // namespace sabot::drill::report
