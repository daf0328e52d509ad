// Prints a page of docs/reference/ that is made from a table in the program: knobs or scenario.
//
// The pages are committed so that they can be read without a build; fresh.py compares them.
#include <cstdio>
#include <string>
#include <string_view>

#include "config/knob.hpp"
#include "scenario/reference.hpp"

int main(int count, char** arguments) {
  const std::string_view page = count == 2 ? arguments[1] : "";
  if (page != "knobs" && page != "scenario") {
    std::fputs("usage: write_reference knobs|scenario\n", stderr);
    return 2;
  }
  const std::string text =
      page == "knobs" ? sabot::config::reference_markdown() : sabot::scenario::reference_markdown();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
