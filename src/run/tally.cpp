// The mapped page of one process.
#include "run/tally.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.hpp"
#include "run/identity.hpp"

namespace sabot::run {
namespace {

std::size_t bytes_for(const Tally::Shape& shape) {
  return sizeof(TallyPage) + std::size_t{shape.fault_count} * shape.slot_bytes;
}

TallyPage* map(int fd, std::size_t bytes, int flags) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<TallyPage*>(memory);
}

// A process id may come back within a run: then the name gets a number.
Result<Fd> create_unused(const std::string& path) {
  constexpr int kTriesMax = 1000;
  for (int number = 0; number < kTriesMax; ++number) {
    const std::string name = number == 0 ? path : path + "." + std::to_string(number);
    Fd file(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.valid()) return file;
    if (errno != EEXIST)
      return Error(Code::kSystem, "cannot create the tally '" + path + "': " + errno_text(errno));
  }
  return Error(Code::kSystem, "cannot create the tally '" + path + "': too many of that name");
}

Result<TallyPage*> map_file(const std::string& path, std::size_t bytes) {
  const Fd file = SABOT_TRY(create_unused(path));
  const int reason = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (reason != 0)
    return Error(Code::kSystem, "cannot allocate the tally '" + path + "': " + errno_text(reason));
  TallyPage* const page = map(file.get(), bytes, MAP_SHARED);
  if (page == nullptr)
    return Error(Code::kSystem, "cannot map the tally '" + path + "': " + errno_text(errno));
  return page;
}

}  // namespace

Tally::~Tally() {
  TallyPage* const page = page_.exchange(nullptr);
  if (page != nullptr && page != spare_) ::munmap(page, bytes_);
  if (spare_ != nullptr) ::munmap(spare_, bytes_);
}

Status Tally::open(const std::string& folder, const std::string& tag, const Shape& shape) {
  if (shape.fault_count > kTallyFaultsMax || shape.slot_bytes > kTallySlotBytesMax)
    return Error(Code::kInvalidArgument,
                 std::to_string(shape.fault_count) + " faults are more than the " +
                     std::to_string(kTallyFaultsMax) + " that a run can count");
  bytes_ = bytes_for(shape);
  spare_ = map(-1, bytes_, MAP_PRIVATE | MAP_ANONYMOUS);
  if (spare_ == nullptr)
    return Error(Code::kSystem, "cannot map memory for counters: " + run::errno_text(errno));
  spare_->slot_bytes = shape.slot_bytes;
  spare_->fault_count = shape.fault_count;
  page_.store(spare_);
  if (folder.empty()) return {};
  TallyPage* const page = SABOT_TRY(map_file(folder + "/tally/" + tag, bytes_));
  page->version = kTallyVersion;
  page->slot_bytes = shape.slot_bytes;
  page->fault_count = shape.fault_count;
  page->pid = ::getpid();
  page->started_ns = now().epoch_ns;
  page->plan_hash = shape.plan_hash;
  page->magic.store(kTallyMagic, std::memory_order_release);  // pairs with: parse_page
  page_.store(page);
  return {};
}

void Tally::after_fork_child() noexcept {
  TallyPage* const page = page_.exchange(spare_);
  if (page != nullptr && page != spare_) ::munmap(page, bytes_);
}

}  // namespace sabot::run
