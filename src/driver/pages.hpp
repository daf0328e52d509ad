// Pages of this process that GPUs reach too, cut into cells of one type.
//
// A GPU may look at a cell long after whoever asked for it is gone: a wait that nobody released, a
// graph that is replayed. So the pages belong to the process and are never given back, and a cell
// returns to the pool only when its owner knows that no stream will touch it again. They are plain
// memory that is registered with the driver: what the CPU does with them stays legal when a context
// dies. Shared, so that no fork makes the parent's pages move away from under the GPU.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "driver/driver.hpp"

namespace sabot::driver {

// Cell: default-constructible, its size a multiple of what alignment a GPU wants. Thread-safe.
template <typename Cell>
class Pages {
 public:
  static Result<std::unique_ptr<Pages>> create(std::size_t cell_count) {
    const std::size_t bytes = cell_count * sizeof(Cell);
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return Error(Code::kSystem,
                   "no memory for " + std::to_string(bytes) + " bytes that a GPU can reach");
    return std::unique_ptr<Pages>(new Pages(static_cast<Cell*>(memory), cell_count));
  }

  // The cell, as new; null when all are taken.
  Cell* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return nullptr;
    Cell* cell = free_.back();
    free_.pop_back();
    return new (cell) Cell();
  }
  // Precondition: no stream touches it any more.
  void give_back(Cell* cell) {
    const std::lock_guard lock(mutex_);
    free_.push_back(cell);
  }
  std::size_t free_count() const {
    const std::lock_guard lock(mutex_);
    return free_.size();
  }

  // Their address in the current context, mapped there the first time.
  Result<Address> map(Driver& driver) {
    return driver.map_host(first_, cell_count_ * sizeof(Cell));
  }
  std::size_t offset_of(const void* part) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(part) -
                                    reinterpret_cast<const std::byte*>(first_));
  }
  bool contains(const void* part) const { return part >= first_ && part < first_ + cell_count_; }

 private:
  Pages(Cell* first, std::size_t cell_count) : first_(first), cell_count_(cell_count) {
    free_.reserve(cell_count);
    for (std::size_t i = cell_count; i > 0; --i) free_.push_back(first + (i - 1));
  }

  Cell* const first_;
  const std::size_t cell_count_;
  mutable std::mutex mutex_;
  std::vector<Cell*> free_;
};

}  // namespace sabot::driver
