// Which engine and which way a run takes, and the sentence that says why. Pure.
//
// auto is real if and only if a libnccl is found for the command and the driver opens and counts a
// device; the stack decides by the same rule where nobody decided for it. Asked for by name, an
// engine is taken even against the odds, since people know things that a search does not; the
// sentence then says what speaks against it.
#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "config/knob.hpp"
#include "launch/nccl_search.hpp"

namespace sabot::launch {

struct EngineFacts {
  config::EngineChoice asked = config::EngineChoice::kAuto;
  std::string asked_by = {};                // "--engine", "SABOT_ENGINE"; "" = default
  std::optional<Result<int>> devices = {};  // not asked where it cannot matter
  std::optional<NcclFinding> nccl = {};     // not searched where it cannot matter
};

struct EngineChosen {
  bool is_real = false;
  std::string reason;  // a clause: "no CUDA driver (…)"
  const char* engine() const { return is_real ? "real" : "host"; }
  const char* way() const { return is_real ? "preload" : "stand-in"; }
};

// kUnsupported: the engine would be real, and the NCCL that the command uses can never be reached.
Result<EngineChosen> choose_engine(const EngineFacts& facts);

}  // namespace sabot::launch
