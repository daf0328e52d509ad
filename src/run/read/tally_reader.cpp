// Reading the pages of a run: sizes and magic are checked before anything is believed.
#include "run/read/tally_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.hpp"
#include "run/read/folder_listing.hpp"

namespace sabot::run {
namespace {

constexpr std::size_t kPageBytesMax = 16ULL * 1024 * 1024;

struct alignas(64) Block {
  unsigned char bytes[64];
};

// The bytes of the file, aligned as a page is; empty if it cannot be one.
std::vector<Block> read_bytes(const std::string& path, std::size_t& bytes) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (!file.valid() || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
  bytes = static_cast<std::size_t>(facts.st_size);
  if (bytes < sizeof(TallyPage) || bytes > kPageBytesMax) return {};
  std::vector<Block> buffer(bytes / sizeof(Block) + 1);
  const ssize_t got = ::pread(file.get(), buffer.data(), bytes, 0);
  if (got != static_cast<ssize_t>(bytes)) return {};
  return buffer;
}

bool parse_page(const std::string& path, TallyRecord& record) {
  std::size_t bytes = 0;
  const std::vector<Block> buffer = read_bytes(path, bytes);
  if (buffer.empty()) return false;
  const auto& page = *reinterpret_cast<const TallyPage*>(buffer.data());
  if (page.magic.load(std::memory_order_acquire) != kTallyMagic) return false;  // pairs with: open
  if (page.version != kTallyVersion || page.slot_bytes > kTallySlotBytesMax ||
      page.fault_count > kTallyFaultsMax)
    return false;
  const std::size_t slots_bytes = std::size_t{page.fault_count} * page.slot_bytes;
  if (bytes < sizeof(TallyPage) + slots_bytes) return false;
  record.pid = page.pid;
  record.started_ns = page.started_ns;
  record.plan_hash = page.plan_hash;
  record.calls_seen = page.total_calls();
  record.errors_from_real = page.errors_from_real.load();
  record.faults_fired = page.faults_fired.load();
  record.slot_bytes = page.slot_bytes;
  record.fault_count = page.fault_count;
  record.slots.assign(page.slots(), page.slots() + slots_bytes);
  return true;
}

}  // namespace

std::vector<TallyRecord> read_tallies(const std::string& run_folder,
                                      std::vector<std::string>& problems) {
  std::vector<TallyRecord> records;
  const std::string folder = run_folder + "/tally";
  for (const std::string& name : list_folder(folder, "")) {
    TallyRecord record;
    record.tag = name;
    if (parse_page(folder + "/" + name, record))
      records.push_back(std::move(record));
    else
      problems.push_back("'" + folder + "/" + name + "' is no tally of this version");
  }
  return records;
}

}  // namespace sabot::run
