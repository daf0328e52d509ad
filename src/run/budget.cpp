// Budget claims as files, and the check that all hosts can see them.
#include "run/budget.hpp"

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.hpp"
#include "run/identity.hpp"

namespace sabot::run {
namespace {

std::string claim_path(const std::string& path, std::uint64_t number) {
  return path + std::to_string(number);
}

bool is_claimed(const std::string& path, std::uint64_t number) {
  return ::access(claim_path(path, number).c_str(), F_OK) == 0;
}

// The smallest number that nobody has claimed, or above; claims are a prefix, so doubling and
// halving find it with a handful of look-ups even for a budget of millions.
std::uint64_t first_free(const std::string& path, std::uint64_t limit) {
  std::uint64_t claimed = 0;
  std::uint64_t free = 1;
  while (free <= limit && is_claimed(path, free)) {
    claimed = free;
    free = free > limit / 2 ? limit + 1 : free * 2;
  }
  while (free - claimed > 1) {
    const std::uint64_t middle = claimed + (free - claimed) / 2;
    (is_claimed(path, middle) ? claimed : free) = middle;
  }
  return free;
}

}  // namespace

void Budget::open(const std::string& folder) {
  folder_ = folder;
  owner_pid_.store(::getpid());
}

void Budget::refuse(std::string why) { refusal_ = std::move(why); }

std::size_t Budget::add(std::string_view fault, std::uint64_t limit) {
  Allowance& allowance = allowances_.emplace_back();
  if (!folder_.empty()) allowance.path = folder_ + "/budget/" + file_name_of(fault) + ".";
  allowance.limit = limit;
  return allowances_.size() - 1;
}

Result<std::uint64_t> Budget::claim(std::size_t index) {
  if (owner_pid_.load() != ::getpid()) return std::uint64_t{0};
  if (!refusal_.empty()) return Error(Code::kInvalidUsage, refusal_);
  Allowance& allowance = allowances_[index];
  if (!allowance.path.empty()) return claim_file(allowance);
  std::uint64_t next = allowance.next.load();
  while (next <= allowance.limit)
    if (allowance.next.compare_exchange_weak(next, next + 1)) return next;
  return std::uint64_t{0};
}

Result<std::uint64_t> Budget::claim_file(Allowance& allowance) {
  if (!allowance.searched.exchange(true)) {
    const std::uint64_t free = first_free(allowance.path, allowance.limit);
    std::uint64_t next = allowance.next.load();
    while (next < free && !allowance.next.compare_exchange_weak(next, free)) {
    }
  }
  for (;;) {
    const std::uint64_t number = allowance.next.load();
    if (number > allowance.limit) return std::uint64_t{0};
    const std::string path = claim_path(allowance.path, number);
    const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const int reason = errno;
    if (!file.valid() && reason != EEXIST)
      return Error(Code::kSystem, "cannot claim the budget '" + path + "': " + errno_text(reason));
    // Ours or somebody's: this number is gone. Another thread may have moved on already.
    std::uint64_t seen = number;
    allowance.next.compare_exchange_strong(seen, number + 1);
    if (file.valid()) return number;
  }
}

std::uint64_t Budget::count_claims(const std::string& run_folder, std::string_view fault) {
  constexpr std::uint64_t kLimit = ~std::uint64_t{0} / 4;
  return first_free(run_folder + "/budget/" + file_name_of(fault) + ".", kLimit) - 1;
}

std::string unshared_folder_text(const std::string& run_folder, bool spans_hosts) {
  if (!spans_hosts) return "";
  struct statfs facts {};
  if (::statfs(run_folder.c_str(), &facts) != 0) return "";
  // The file systems that certainly live on one host; of anything else we believe that it is
  // shared.
  constexpr std::uint64_t kLocal[] = {0xEF53,       // ext2, ext3, ext4
                                      0x58465342,   // xfs
                                      0x9123683E,   // btrfs
                                      0x01021994,   // tmpfs
                                      0x794C7630,   // overlayfs
                                      0x2FC12FC1};  // zfs
  for (const std::uint64_t type : kLocal)
    if (static_cast<std::uint64_t>(facts.f_type) == type)
      return "the job runs on several hosts, but run folder '" + run_folder +
             "' lies on a disk of host " + host_name() +
             " alone, where the others cannot see which budgets are used up; give a folder on a "
             "shared file system with --run-folder, or leave budget out of the scenario";
  return "";
}

}  // namespace sabot::run
