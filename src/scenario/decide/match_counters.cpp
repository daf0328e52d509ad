// Rows by open addressing on an owner word that is claimed once and never given back.
#include "scenario/decide/match_counters.hpp"

#include <algorithm>
#include <atomic>
#include <new>

#include "base/random.hpp"

namespace sabot::scenario {
namespace {

using Word = std::atomic_ref<std::uint64_t>;

// Zeroed memory that the system maps when it is touched; value-initialising an array would touch
// two megabytes for a scenario of 64 faults.
template <typename T>
T* zeroed(std::size_t count) {
  void* const memory = std::calloc(std::max<std::size_t>(count, 1), sizeof(T));
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<T*>(memory);
}

}  // namespace

MatchCounters::MatchCounters(std::size_t columns)
    : columns_(columns),
      owners_(zeroed<std::uint64_t>(kCountersMax)),
      cells_(zeroed<Cell>(kCountersMax * columns)) {}

std::optional<std::uint32_t> MatchCounters::row_of(int rank, int attempt) {
  const auto low = static_cast<std::uint32_t>(rank + 1);
  const std::uint64_t high = static_cast<std::uint64_t>(std::max(attempt, 0)) + 1;
  const std::uint64_t owner = high << 32U | low;
  auto row = static_cast<std::uint32_t>(mix(owner) % kCountersMax);
  for (std::size_t probes = 0; probes < kCountersMax; ++probes) {
    Word word(owners_[row]);
    std::uint64_t found = word.load(std::memory_order_relaxed);  // pairs with: row_of
    if (found == 0 && word.compare_exchange_strong(found, owner)) found = owner;
    if (found == owner) return row;
    row = (row + 1) % kCountersMax;
  }
  return std::nullopt;
}

MatchCounters::Drawn MatchCounters::draw(std::uint32_t row, std::size_t column) {
  Cell& cell = this->cell(row, column);
  // The awaited number is read before the count is raised: whoever stored it had drawn a smaller
  // number than the one drawn here, so that no awaited number falls between the two.
  const std::uint64_t next = Word(cell.next).load(std::memory_order_acquire);  // pairs with: await
  const std::uint64_t number = Word(cell.count).fetch_add(1) + 1;
  return {number, number >= next};
}

void MatchCounters::await(std::uint32_t row, std::size_t column, std::uint64_t next) {
  Word(cell(row, column).next).store(next, std::memory_order_release);  // pairs with: draw
}

std::uint64_t MatchCounters::count(std::uint32_t row, std::size_t column) const {
  // relaxed: a number of its own, which publishes nothing
  return Word(cell(row, column).count).load(std::memory_order_relaxed);
}

void MatchCounters::restart(std::size_t column) {
  for (std::uint32_t row = 0; row < kCountersMax; ++row) {
    Cell& cell = this->cell(row, column);
    // relaxed: only rows in use are written, and a call that is counted meanwhile may count for
    // either side
    if (Word(cell.count).load(std::memory_order_relaxed) == 0) continue;
    Word(cell.count).store(0);
    Word(cell.next).store(0);
  }
}

}  // namespace sabot::scenario
