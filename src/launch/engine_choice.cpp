// The rule, case by case.
#include "launch/engine_choice.hpp"

namespace sabot::launch {
namespace {

std::string devices_text(int count) {
  return count == 1 ? "1 CUDA device" : std::to_string(count) + " CUDA devices";
}

// A clause goes between brackets: "no CUDA driver (libcuda.so.1: …)" becomes "no CUDA driver: …".
std::string without_brackets(std::string text) {
  const std::size_t open = text.find(" (");
  if (open == text.npos || !text.ends_with(')')) return text;
  text.pop_back();
  return text.replace(open, 2, ": ");
}

Result<EngineChosen> real_by_name(const EngineFacts& facts) {
  const std::string asked = "asked for by " + facts.asked_by;
  if (!facts.nccl) return EngineChosen{true, asked};
  if (facts.nccl->path.empty() && !facts.nccl->unreachable.empty())
    return Error(Code::kUnsupported, facts.nccl->unreachable);
  if (facts.nccl->path.empty())
    return EngineChosen{true, asked + "; no libnccl was found, the program has to bring its own; " +
                                  searched_text(*facts.nccl)};
  return EngineChosen{true, asked + "; " + facts.nccl->path + " " + facts.nccl->how};
}

}  // namespace

Result<EngineChosen> choose_engine(const EngineFacts& facts) {
  if (facts.asked == config::EngineChoice::kHost)
    return EngineChosen{false, "asked for by " + facts.asked_by};
  if (facts.asked == config::EngineChoice::kReal) return real_by_name(facts);
  if (!facts.devices || !facts.devices->ok())
    return EngineChosen{false, facts.devices ? without_brackets(facts.devices->error().message())
                                             : "no CUDA driver"};
  const std::string devices = devices_text(facts.devices->value());
  if (facts.nccl && !facts.nccl->path.empty())
    return EngineChosen{true, devices + "; " + facts.nccl->path + " " + facts.nccl->how};
  if (facts.nccl && !facts.nccl->unreachable.empty())
    return Error(Code::kUnsupported, facts.nccl->unreachable);
  return EngineChosen{false, devices + ", but no libnccl was found; " +
                                 (facts.nccl ? searched_text(*facts.nccl) : "")};
}

}  // namespace sabot::launch
