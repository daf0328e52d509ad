// The vendor's libnccl of this process: found, held, and asked for its functions.
//
// open() walks the candidates in a fixed order, keeps the reason for every rejection, and pins the
// first usable library with an explicit handle, so that `ncclX` can be forwarded without asking the
// loader again (RTLD_NEXT does not see a library that Python opened with RTLD_LOCAL). Where a
// process holds several copies of NCCL, each caller is routed to the copy it would have reached
// without us. Objects that export sabot_stack_v1 are ours and never candidates. Nothing here runs
// before the first NCCL call; reading the environment is left to config, and layers, counting and
// logging to the stack.
//
// Thread-safety: open() once; refresh() may be called by any thread (a lock inside, never held
// while foreign code runs); everything else is const, lock-free and may be called at any time, from
// any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "real/loader.hpp"

namespace sabot::real {

// Values of the knobs and of foreign variables that take part in the search; empty = not set.
struct SearchSettings {
  std::string real_nccl =
      {};  // SABOT_REAL_NCCL: if set, this file or an error, and every call goes there
  std::string conda_prefix = {};  // CONDA_PREFIX
  std::string nccl_root = {};     // NCCL_ROOT
  std::string library_path =
      {};  // LD_LIBRARY_PATH, asked again where the bare name only leads to our stand-in
};

// The places, in the order of the search.
enum class Place : std::uint8_t {
  kNamed,       // SABOT_REAL_NCCL
  kMapped,      // already mapped in this process
  kNearTorch,   // relative to a mapped libtorch_cuda.so
  kRunPath,     // the run path of objects that are linked to libnccl.so.2
  kNext,        // next definition in the loader's order
  kConda,       // CONDA_PREFIX/lib
  kNcclRoot,    // NCCL_ROOT/lib
  kLoaderName,  // the loader's own search for libnccl.so.2, libnccl.so
  kLibraryPath,
  kLoaderCache,  // /etc/ld.so.cache
};
const char* to_string(Place place);

struct Rejection {
  Place place;
  std::string path;  // "" = the place offered no file
  std::string reason;
};

// 22809 → "2.28.9", 2804 → "2.8.4", 0 → "of unknown version".
std::string format_version(int code);

// One copy of NCCL in this process; lives until the process ends.
class Copy {
 public:
  Copy(Loader& loader, MappedObject object, Place place, void* handle);

  const std::string& path() const { return object_.path; }
  const std::string& soname() const { return object_.soname; }
  const std::string& build_id() const { return object_.build_id; }
  int version() const { return version_; }  // 22809; 0 = it does not say
  Place place() const { return place_; }
  void* handle() const { return handle_; }  // pins the object; null only for the program itself
  // Its own library (libnccl.so*), not NCCL linked statically into something that also calls it.
  bool is_dedicated() const { return dedicated_; }

  const MappedObject& object() const { return object_; }

  // "AllReduce" → its pncclAllReduce, else its ncclAllReduce, else null.
  void* symbol(std::string_view function) const;
  // Why symbol() was null; since = the release that introduced the function (22907), 0 = unknown.
  // One line.
  std::string missing_text(std::string_view function, int since) const;
  // Whether an address lies in its mapping. Async-signal-safe.
  bool contains(const void* address) const noexcept { return object_.covers(address); }
  // "/path (NCCL 2.28.9, build id 1234abcd)"
  std::string text() const;

  // Remembers that a call came through Sabot and went here; cheap when repeated.
  // relaxed: a flag on its own, read when the process ends.
  void note_call() const noexcept {
    if (!called_.load(std::memory_order_relaxed)) called_.store(true, std::memory_order_relaxed);
  }
  // relaxed: as above.
  bool called() const noexcept { return called_.load(std::memory_order_relaxed); }

 private:
  Loader* loader_;
  MappedObject object_;
  Place place_;
  bool dedicated_;
  int version_ = 0;
  void* handle_;
  mutable std::atomic<bool> called_{false};
};

enum class Caller : std::uint8_t {
  kApplication,
  kCopy,     // NCCL itself: pass to copy->symbol(), neither counted, faulted nor traced (B8)
  kWrapper,  // the tool that next() would lead to: pass to copy->symbol(), or the two would recurse
};

struct Route {
  const Copy* copy;  // never null
  Caller caller;
};

class RealLibrary {
 public:
  RealLibrary(const RealLibrary&) = delete;
  RealLibrary& operator=(const RealLibrary&) = delete;

  // The copy found by the search.
  const Copy& chosen() const { return *chosen_; }
  const std::vector<Rejection>& rejected() const { return rejected_; }
  // "NCCL 2.28.9 from /path (already mapped)"
  std::string text() const;

  // Where a call that the application meant for `copy` goes on (B7): another tool's ncclX if the
  // loader would have answered with it after us, else the copy's own function; null = the copy
  // lacks it.
  void* next(std::string_view function, const Copy& copy) const;
  void* next(std::string_view function) const { return next(function, *chosen_); }

  // The copy that the code around return_address would have reached without us, and what that code
  // is.
  Route route_for(const void* return_address) const noexcept;
  const Copy* copy_for(const void* return_address) const noexcept {
    return route_for(return_address).copy;
  }
  std::vector<const Copy*> copies() const;

  // Whether objects came or went since open() or the last refresh(): one comparison, for functions
  // that create something (GetUniqueId, GroupStart, CommInit…), which a second copy's users call
  // first.
  bool maps_changed() const noexcept;
  // Looks again. Returns a line to log if copies were found that were not there before.
  std::optional<std::string> refresh();
  // The line that names all copies; nothing if there is only one.
  std::optional<std::string> several_copies_text() const;

 private:
  friend Result<std::unique_ptr<RealLibrary>> open(Loader& loader, const SearchSettings& settings);
  explicit RealLibrary(Loader& loader) : loader_(&loader) {}

  static constexpr std::size_t kCopiesMax = 16;
  static constexpr std::size_t kRoutesMax = 128;
  static constexpr std::size_t kWrappersMax = 8;
  // Where the calls of one object go. Readers take what they find only if version_ did not move.
  struct CachedRoute {
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0};
    std::atomic<const Copy*> copy{nullptr};
  };

  const Copy* copy_at(const void* address) const noexcept;
  const Copy* known(const MappedObject& object) const noexcept;
  bool in_wrapper(const void* address) const noexcept;
  const Copy* cached_route(const void* return_address) const noexcept;
  const Copy* look_up_route(const void* return_address) const;
  const Copy* add_copy(std::unique_ptr<Copy> copy);
  bool adopt_mapped(const std::vector<MappedObject>& objects);
  bool leads_to_wrapper(const void* function) const;
  bool note_wrapper(const MappedObject& object) const;
  void forget_routes();

  Loader* loader_;
  const Copy* chosen_ = nullptr;
  std::vector<Rejection> rejected_;
  std::array<std::unique_ptr<Copy>, kCopiesMax>
      copies_;  // written before count_ grows, then constant
  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint64_t> changes_seen_{0};
  mutable std::mutex mutex_;  // guards what follows against other writers
  struct Range {
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0};
  };
  mutable std::array<Range, kWrappersMax>
      wrappers_;                                   // filled from the front, end last, never emptied
  mutable std::atomic<std::uint32_t> version_{0};  // odd while routes_ is being changed
  mutable std::array<CachedRoute, kRoutesMax> routes_;
  mutable std::size_t route_next_ = 0;
};

// Finds and opens the library. kNotFound: the message names every place searched with its reason.
// kInvalidArgument: SABOT_REAL_NCCL names something unusable. The loader must outlive the result.
Result<std::unique_ptr<RealLibrary>> open(Loader& loader, const SearchSettings& settings);

// The text of a failed search: one line a place.
std::string searched_text(const std::vector<Rejection>& rejected);

// A copy of NCCL that is mapped but that no call reached through us.
struct Bypass {
  std::string path;
  // Nothing in the process is linked to it by name, so it was opened by handle; otherwise it may be
  // that the program simply never called NCCL.
  bool by_handle;
  std::string text;  // one line: what happened, why, what to do about it
};

// A preload cannot see calls through dlopen/dlsym handles, nor into NCCL that is linked statically
// with local symbols. To be asked at exit or at any later point; `real` is null if no call ever
// came.
std::vector<Bypass> bypassed(Loader& loader, const RealLibrary* real);

// Objects of this process that carry NCCL where nothing can be preloaded over it (case C2). Reads
// their files, about a second per GiB: ask only where CUDA was used and nothing attached.
std::vector<Bypass> hidden_in_process(Loader& loader);

}  // namespace sabot::real
