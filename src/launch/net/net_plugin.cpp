// Asking for the plugin, and refusing to replace another one.
#include "launch/net/net_plugin.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace sabot::launch {
namespace {

using config::KnobId;

constexpr std::string_view kDefaultPlugin = "libnccl-net.so";

// Where the loader would find it for the vendor's library; "" = nowhere.
std::string default_plugin(const config::Snapshot& settings, Machine& machine) {
  for (const std::string_view folder : split(settings.get<KnobId::kLdLibraryPath>(), ':')) {
    if (folder.empty()) continue;
    const std::string path = std::string(folder) + "/" + std::string(kDefaultPlugin);
    if (machine.is_file(path)) return path;
  }
  const std::vector<std::string> cached = machine.cached_libraries(std::string(kDefaultPlugin));
  return cached.empty() ? "" : cached.front();
}

Error refuse(const std::string& what, const std::string& instead) {
  return Error(Code::kInvalidUsage,
               "the scenario has a link fault, for which all traffic goes through Sabot's network "
               "plugin, but " +
                   what + "; " + instead);
}

Status check_free(const config::Snapshot& settings, const std::string& ours, Machine& machine) {
  const std::string asked(settings.get<KnobId::kNcclNetPlugin>());
  if (!asked.empty() && asked != ours && !equals_ignoring_case(asked, "none"))
    return refuse("NCCL_NET_PLUGIN asks for '" + asked + "'",
                  "unset it for this run, or use another action than link");
  const std::string_view net = settings.get<KnobId::kNcclNet>();
  if (!net.empty() && !equals_ignoring_case(net, "Socket") && !equals_ignoring_case(net, "Sabot"))
    return refuse("NCCL_NET asks for '" + std::string(net) + "'",
                  "unset it for this run, or use another action than link");
  if (!asked.empty()) return {};
  const std::string found = default_plugin(settings, machine);
  if (found.empty()) return {};
  return refuse("NCCL would find '" + found + "' here",
                "set NCCL_NET_PLUGIN=none to do without it in this run, or use another action "
                "than link");
}

}  // namespace

Result<NetEnvironment> net_environment(const scenario::Scenario& scenario, bool is_real,
                                       const config::Snapshot& settings,
                                       const Installation& installation, Machine& machine) {
  const bool is_needed =
      is_real && std::any_of(scenario.faults.begin(), scenario.faults.end(), [](const auto& fault) {
        return fault.action.kind == scenario::ActionKind::kLink;
      });
  if (!is_needed) return NetEnvironment{};
  const std::string ours = installation.net_plugin();
  SABOT_TRY(check_free(settings, ours, machine));
  if (!machine.is_file(ours))
    return Error(Code::kNotFound, "'" + ours +
                                      "' is missing beside this program, and the scenario has a "
                                      "link fault; run `make` again, or install it with `make "
                                      "install`");
  NetEnvironment net;
  net.variables = {{"NCCL_NET_PLUGIN", ours},
                   {"NCCL_NET", "Sabot"},
                   {"NCCL_P2P_DISABLE", "1"},
                   {"NCCL_SHM_DISABLE", "1"},
                   {"NCCL_NVLS_ENABLE", "0"}};
  net.text = "link faults: on all ranks NCCL's traffic goes over the sockets of Sabot's plugin (";
  for (const auto& [name, value] : net.variables)
    net.text += (name == net.variables.front().first ? "" : ", ") + name + "=" + value;
  net.text += "), which is slower";
  return net;
}

}  // namespace sabot::launch
