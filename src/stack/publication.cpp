// The tables of bridge.hpp, put together slot by slot.
#include "stack/publication.hpp"

#include "abi/names.hpp"
#include "stack/bridge.hpp"
#include "stack/entries.hpp"
#include "stack/real_engine.hpp"

namespace sabot::stack {
namespace {

// Slots that are null in `over` stay as they are.
void overlay(abi::FunctionTable& table, const abi::FunctionTable& over) {
  for (std::size_t i = 0; i < abi::kFunctionCount; ++i)
    if (over.by_id[i] != nullptr) table.by_id[i] = over.by_id[i];
}

bool is_followed(abi::Kind kind) {
  switch (kind) {
    case abi::Kind::init:
    case abi::Kind::derive:
    case abi::Kind::destroy:
    case abi::Kind::abort:
    case abi::Kind::group: return true;
    default: return false;
  }
}

void follow(abi::FunctionTable& table, const abi::FunctionTable& bridge) {
  for (const abi::FunctionInfo& row : abi::all_functions()) {
    const auto i = static_cast<std::size_t>(row.id);
    if (is_followed(row.kind)) table.by_id[i] = bridge.by_id[i];
  }
}

abi::FunctionTable host_table(bool is_following, const abi::FunctionTable& bridge) {
  abi::FunctionTable table = kHostDirect;
  if (!is_following) return table;
  overlay(table, kWatchingHost);
  follow(table, bridge);
  return table;
}

abi::FunctionTable real_table(const RealEngine& real, bool is_following) {
  abi::FunctionTable table = real.is_direct() ? real.chosen().next : kRouted;
  overlay(table, kWatching);
  if (is_following) follow(table, kBridge);
  return table;
}

}  // namespace

void publish(const Publication& to) {
  if (to.real == nullptr) {
    const abi::FunctionTable table = to.is_bridged ? kBridge : host_table(to.is_following, kBridge);
    publish_host(table);
    return publish_all(table);
  }
  if (to.has_beside)
    publish_host(to.is_bridged ? kBesideBridge : host_table(to.is_following, kBesideBridge));
  publish_all(to.is_bridged ? kBridge : real_table(*to.real, to.is_following));
}

void publish_refusal() {
  publish_host(kRefusing);
  publish_all(kRefusing);
}

}  // namespace sabot::stack
