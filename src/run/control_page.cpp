// Mapping the page, claiming what it asks for, listing what is held.
#include "run/control_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/fd.hpp"
#include "base/random.hpp"
#include "run/identity.hpp"

namespace sabot::run {
namespace {

std::uint32_t low(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

bool is_for(std::uint64_t fire, std::int32_t world_rank) {
  const std::uint32_t whom = low(fire);
  if (whom == kFireNobody || whom == kFireAnyRank) return whom == kFireAnyRank;
  return world_rank >= 0 && whom == kFireRank0 + static_cast<std::uint32_t>(world_rank);
}

std::uint64_t pack(const ControlFault& fault, std::int32_t world_rank) {
  return std::uint64_t{fault.plan} << 48 | std::uint64_t{fault.fault} << 32 |
         static_cast<std::uint32_t>(world_rank);
}

}  // namespace

std::uint64_t hash_of(const ControlNames& names) {
  std::uint64_t hash = mix(names.faults.size());
  for (const std::string& fault : names.faults) hash = mix(hash, hash_text(fault));
  for (const std::string& name : names.switches) hash = mix(hash, hash_text(name));
  return hash;
}

std::string control_page_path(const std::string& run_folder) { return run_folder + "/control"; }

Result<ControlMapping> ControlMapping::open(const std::string& run_folder) {
  const std::string path = control_page_path(run_folder);
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid())
    return Error(errno == ENOENT ? Code::kNotFound : Code::kSystem,
                 "cannot open the control page '" + path + "': " + errno_text(errno));
  struct stat facts {};
  // A shorter file would end somebody else's process with SIGBUS.
  const bool is_page = ::fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode) &&
                       facts.st_size >= static_cast<off_t>(sizeof(ControlPage));
  if (is_page) {
    void* const memory =
        ::mmap(nullptr, sizeof(ControlPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED)
      return Error(Code::kSystem,
                   "cannot map the control page '" + path + "': " + errno_text(errno));
    ControlMapping mapping(static_cast<ControlPage*>(memory));
    const ControlPage& page = *mapping.page();
    if (page.magic == kControlMagic && page.version == kControlVersion &&
        page.bytes == sizeof(ControlPage))
      return mapping;
  }
  return Error(Code::kInvalidArgument, "'" + path + "' is no control page of this version");
}

ControlMapping::ControlMapping(ControlMapping&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)) {}

ControlMapping& ControlMapping::operator=(ControlMapping&& other) noexcept {
  std::swap(page_, other.page_);
  return *this;
}

ControlMapping::~ControlMapping() {
  if (page_ != nullptr) ::munmap(page_, sizeof(ControlPage));
}

Control::Control() : page_(&own_) { own_.plans[0].armed.store(~std::uint64_t{0}); }

Status Control::open(const std::string& folder, const ControlNames& names) {
  own_.plans[0].armed.store(names.armed);
  if (folder.empty()) return {};
  Result<ControlMapping> mapped = ControlMapping::open(folder);
  if (!mapped.ok() && mapped.error().code() == Code::kNotFound) return {};
  shared_ = SABOT_TRY(std::move(mapped));
  is_plan_of_run_ = shared_.page()->names_hash == hash_of(names);
  page_.store(shared_.page());
  return {};
}

std::uint32_t Control::added() const {
  constexpr std::uint64_t kMax = kControlPlansMax - 1;
  return static_cast<std::uint32_t>(std::min(page_.load()->added.load(), kMax));
}

std::uint64_t Control::fires_among(std::uint64_t waiting, std::uint32_t plan,
                                   std::int32_t world_rank) const {
  const ControlPlan& asked = plan_at(plan);
  std::uint64_t fires = 0;
  for (std::size_t i = 0; i < kControlFaultsMax; ++i)
    if ((waiting >> i & 1U) != 0 && is_for(asked.fire[i].load(), world_rank))
      fires |= std::uint64_t{1} << i;
  return fires;
}

bool Control::claim_fire(const ControlFault& fault, std::int32_t world_rank) {
  ControlPlan& plan = plan_at(fault.plan);
  std::uint64_t request = plan.fire[fault.fault].load();
  const std::uint64_t bit = std::uint64_t{1} << fault.fault;
  do {
    if (!is_for(request, world_rank)) return false;
  } while (!plan.fire[fault.fault].compare_exchange_weak(request, request - low(request)));
  plan.fires_waiting.fetch_and(~bit);
  // A request that came between the two lines above must not lose its bit.
  if (low(plan.fire[fault.fault].load()) != kFireNobody) plan.fires_waiting.fetch_or(bit);
  return true;
}

std::uint64_t Control::release_count(const ControlFault& fault) const {
  const std::uint64_t all = page_.load()->release_all.load();
  if (fault.plan >= kControlPlansMax) return all;
  return all + plan_at(fault.plan).release[fault.fault].load();
}

Control::Listing::Listing(Control& control, const ControlFault& fault, std::int32_t world_rank) {
  const std::uint64_t pid = static_cast<std::uint64_t>(::getpid()) << 32;
  for (ControlHold& hold : control.page_.load()->holds) {
    std::uint64_t nobody = 0;
    if (hold.owner.load() != 0 ||
        !hold.owner.compare_exchange_strong(nobody, pid | kHoldBeingListed))
      continue;
    hold.since_ns.store(now().epoch_ns);
    hold.what.store(pack(fault, world_rank));
    owner_ = pid | kHoldListed;
    hold.owner.store(owner_);
    hold_ = &hold;
    return;
  }
}

Control::Listing::~Listing() {
  if (hold_ != nullptr) hold_->owner.compare_exchange_strong(owner_, 0);
}

}  // namespace sabot::run
