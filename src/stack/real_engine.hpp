// The engine `real`: the copies of the vendor's library in this process as one API table.
//
// Each copy has two function tables: `next`, where an application's call goes on (another tool's
// wrapper if the loader would have led there after us, else the copy), and `own`, the copy's
// functions themselves, for calls that NCCL or that wrapper makes (B7, B8). A function that a copy
// lacks is replaced by one that says so. Which copy a call is meant for follows from the code it
// came from (case C1); the bridge puts its tables into Call::target.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "abi/api_table.hpp"
#include "real/real_library.hpp"

namespace sabot::stack {

struct CopyTables {
  const real::Copy* copy = nullptr;
  abi::FunctionTable next{};
  abi::FunctionTable own{};
  bool has_wrapper = false;  // some of next is not own
};

// Where one call goes: through the layers to tables.next, or (passes) straight to tables.own.
struct Destination {
  const CopyTables* tables;
  bool passes;
};

class RealEngine {
 public:
  // Takes the process's library; the object lives as long as the process.
  explicit RealEngine(std::unique_ptr<real::RealLibrary> library);

  abi::Api api();
  const real::RealLibrary& library() const { return *library_; }
  const CopyTables& chosen() const { return *chosen_; }

  // Whether every call may jump straight to chosen().next: one copy, and no tool that could call
  // back.
  bool is_direct() const;
  Destination destination(const void* return_address) const noexcept;
  // For functions that create something: notices copies that came later. True if there are new
  // ones.
  bool look_again();

 private:
  static constexpr std::size_t kCopiesMax = 16;

  // NCCL that is linked into a framework shares its object with the application's own calls.
  bool is_inside_dedicated_copy(const void* return_address) const noexcept {
    return chosen_->copy->contains(return_address) && chosen_->copy->is_dedicated();
  }
  const CopyTables* tables_of(const real::Copy* copy) const noexcept;
  const CopyTables* add(const real::Copy& copy);

  std::unique_ptr<real::RealLibrary> library_;
  const CopyTables* chosen_ = nullptr;
  std::mutex mutex_;
  std::atomic<std::size_t> count_{0};
  std::array<std::unique_ptr<CopyTables>, kCopiesMax> tables_;
};

}  // namespace sabot::stack
