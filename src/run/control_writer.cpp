// Making the page and changing it.
#include "run/control_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include "run/text_file.hpp"

namespace sabot::run {
namespace {

std::uint64_t bit_of(const ControlFault& fault) { return std::uint64_t{1} << fault.fault; }

void set_bit(std::atomic<std::uint64_t>& word, std::uint64_t bit, bool is_on) {
  if (is_on)
    word.fetch_or(bit);
  else
    word.fetch_and(~bit);
}

}  // namespace

bool process_has_ended(int pid) {
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  const Result<std::string> stat =
      read_text_file("process", "/proc/" + std::to_string(pid) + "/stat");
  if (!stat.ok()) return false;
  const std::size_t name_end = stat->rfind(") ");
  return name_end != stat->npos && name_end + 2 < stat->size() && (*stat)[name_end + 2] == 'Z';
}

Result<ControlWriter> ControlWriter::open(const std::string& run_folder,
                                          const ControlNames& names) {
  const auto image = std::make_unique<ControlPage>();
  image->magic = kControlMagic;
  image->version = kControlVersion;
  image->bytes = sizeof(ControlPage);
  image->names_hash = hash_of(names);
  image->plans[0].armed.store(names.armed);
  const std::string path = control_page_path(run_folder);
  const std::string_view bytes(reinterpret_cast<const char*>(image.get()), sizeof(ControlPage));
  SABOT_TRY(create_file_once(path, bytes));
  ControlMapping mapping = SABOT_TRY(ControlMapping::open(run_folder));
  if (mapping.page()->names_hash != image->names_hash)
    return Error(Code::kInvalidUsage,
                 "the control page '" + path + "' belongs to a launcher with other faults");
  return ControlWriter(std::move(mapping));
}

void ControlWriter::bump() {
  // pairs with: Control::generation
  page().generation.fetch_add(1, std::memory_order_release);
}

bool ControlWriter::is_armed(const ControlFault& fault) const {
  return (plan_of(fault).armed.load() & bit_of(fault)) != 0;
}

void ControlWriter::set_armed(const ControlFault& fault, bool is_armed) {
  set_bit(plan_of(fault).armed, bit_of(fault), is_armed);
  bump();
}

bool ControlWriter::is_switched_on(std::uint32_t plan, std::uint32_t bit) const {
  return (page().plans[plan].switches.load() >> bit & 1U) != 0;
}

void ControlWriter::set_switch(std::uint32_t plan, std::uint32_t bit, bool is_on) {
  set_bit(page().plans[plan].switches, std::uint64_t{1} << bit, is_on);
  bump();
}

void ControlWriter::request_fire(const ControlFault& fault, std::int32_t world_rank) {
  std::atomic<std::uint64_t>& word = plan_of(fault).fire[fault.fault];
  const std::uint64_t sequence = (word.load() >> 32) + 1;
  const std::uint32_t whom =
      world_rank < 0 ? kFireAnyRank : kFireRank0 + static_cast<std::uint32_t>(world_rank);
  word.store(sequence << 32 | whom);
  plan_of(fault).fires_waiting.fetch_or(bit_of(fault));
  bump();
}

void ControlWriter::withdraw_fire(const ControlFault& fault) {
  std::atomic<std::uint64_t>& word = plan_of(fault).fire[fault.fault];
  word.store(word.load() >> 32 << 32);
  plan_of(fault).fires_waiting.fetch_and(~bit_of(fault));
  bump();
}

std::optional<std::int32_t> ControlWriter::waiting_fire(const ControlFault& fault) const {
  const auto whom = static_cast<std::uint32_t>(plan_of(fault).fire[fault.fault].load());
  if (whom == kFireNobody) return std::nullopt;
  if (whom == kFireAnyRank) return kAnyRank;
  return static_cast<std::int32_t>(whom - kFireRank0);
}

void ControlWriter::release(const ControlFault& fault) {
  plan_of(fault).release[fault.fault].fetch_add(1);
  bump();
}

void ControlWriter::release_all() {
  page().release_all.fetch_add(1);
  bump();
}

void ControlWriter::count_added(std::uint64_t armed, std::uint64_t switches) {
  const std::uint32_t number = added() + 1;
  page().plans[number].armed.store(armed);
  page().plans[number].switches.store(switches);
  page().added.store(number);
  bump();
}

std::uint32_t ControlWriter::added() const {
  constexpr std::uint64_t kMax = kControlPlansMax - 1;
  return static_cast<std::uint32_t>(std::min(page().added.load(), kMax));
}

std::uint64_t ControlWriter::fired(const ControlFault& fault) const {
  return plan_of(fault).fired[fault.fault].load();
}

std::vector<HeldCall> ControlWriter::held() {
  std::vector<HeldCall> calls;
  for (ControlHold& hold : page().holds) {
    std::uint64_t owner = hold.owner.load();
    if (owner == 0) continue;
    HeldCall call;
    call.pid = static_cast<std::int32_t>(owner >> 32);
    const std::uint64_t what = hold.what.load();
    call.since_ns = hold.since_ns.load();
    // A reader of words that are written meanwhile: what it read counts if the owner is the same.
    if (hold.owner.load() != owner) continue;
    if (process_has_ended(call.pid)) {
      hold.owner.compare_exchange_strong(owner, 0);
      continue;
    }
    call.fault.plan = static_cast<std::uint32_t>(what >> 48);
    call.fault.fault = static_cast<std::uint32_t>(what >> 32 & 0xFFFF);
    call.world_rank = static_cast<std::int32_t>(static_cast<std::uint32_t>(what));
    const bool is_listed = static_cast<std::uint32_t>(owner) == kHoldListed;
    if (is_listed && call.fault.plan < kControlPlansMax && call.fault.fault < kControlFaultsMax)
      calls.push_back(call);
  }
  return calls;
}

}  // namespace sabot::run
