// What `sabot demo` does: a program of several processes, once as it is, once with a scenario, and
// proof.
//
// Both runs are real `sabot run` commands of this very program, printed before they start, so that
// they can be repeated by hand. What is shown comes from the program's own output and from the
// journal of the run; the verdict (demo_output) is computed from those, and nothing else.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "launch/demo/demo_output.hpp"
#include "launch/installation.hpp"

namespace sabot::launch {

struct DemoOptions {
  DemoShape shape;
  std::string folder;  // "" = runs/demo-TIME-PID
};

enum class Tone : std::uint8_t { kPlain, kHeading, kQuiet, kGood, kBad };
using Print = std::function<void(Tone tone, std::string_view line)>;

// 0: all of it happened; 1: something did not, and was named; 2: it could not begin.
int demo(const DemoOptions& options, const Installation& installation,
         const char* const* environment, const Print& print);

}  // namespace sabot::launch
