// How many calls met a trigger, per rank and attempt: what nth, range and every count by.
//
// A table of rows (a rank in an attempt) and columns (a trigger, or several that differ only in
// what they do with the number, so that one addition serves them all). Beside each count stands the
// next number at which anybody in the column wants to be asked; all before it cost an addition and
// a comparison.
//
// Everything is allocated at once, and pages that no rank touches never become memory. Thread-safe;
// nothing allocates, locks or waits after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

namespace sabot::scenario {

// Ranks × attempts that one process can hold; more are not counted, and the tally says so.
inline constexpr std::size_t kCountersMax = 1024;

class MatchCounters {
 public:
  explicit MatchCounters(std::size_t columns);

  // The row of this rank in this attempt; nothing if there is no row left. rank: -1 is one too.
  std::optional<std::uint32_t> row_of(int rank, int attempt);

  struct Drawn {
    std::uint64_t number;  // 1-based
    bool is_awaited;       // somebody asked for this number; then await() has to follow
  };
  Drawn draw(std::uint32_t row, std::size_t column);
  // After number was looked at: next is the first one above it that matters, ~0 for none.
  void await(std::uint32_t row, std::size_t column, std::uint64_t next);
  std::uint64_t count(std::uint32_t row, std::size_t column) const;
  // Begins at 1 again, in all rows.
  void restart(std::size_t column);

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Cell {
    std::uint64_t count;
    std::uint64_t next;
  };
  Cell& cell(std::uint32_t row, std::size_t column) const {
    return cells_[row * columns_ + column];
  }

  std::size_t columns_;
  std::unique_ptr<std::uint64_t[], Free> owners_;  // of the rows; 0: free
  std::unique_ptr<Cell[], Free> cells_;            // plain words, used through atomic_ref
};

}  // namespace sabot::scenario
