// Which copy of NCCL a caller would have reached without us: the loader's lookup, replayed. Pure.
//
// The loader binds a name first in the global scope (the program, what is preloaded, their
// dependencies, what was opened RTLD_GLOBAL), then in the scope of the object that was opened by
// hand and brought the caller in: that object and its dependencies, breadth first. RTLD_NEXT
// answers for the global scope behind us; the rest follows from who needs whom.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "real/loader.hpp"

namespace sabot::real {

constexpr std::size_t kNoObject = static_cast<std::size_t>(-1);

std::string_view file_name(std::string_view path);
// Calls itself libnccl.so…, by SONAME or by file name.
bool is_named_nccl(const MappedObject& object);
// A whole NCCL that is not ours: a libnccl, or NCCL linked into something and exported with its
// twins.
bool is_copy(const MappedObject& object);

class Scope {
 public:
  // Keeps a reference; objects must outlive it.
  explicit Scope(const std::vector<MappedObject>& objects);

  std::size_t object_at(const void* address) const;
  // next: where RTLD_NEXT leads from us, or kNoObject. kNoObject: nothing but the loader's answer
  // to a request not made yet, so the chosen library.
  std::size_t copy_reached_by(std::size_t caller, std::size_t next) const;

 private:
  std::size_t resolve(std::string_view needed) const;
  std::vector<std::size_t> breadth_first(std::size_t root) const;
  std::size_t first_copy(const std::vector<std::size_t>& order) const;

  const std::vector<MappedObject>& objects_;
  std::vector<std::vector<std::size_t>> needs_;
};

}  // namespace sabot::real
