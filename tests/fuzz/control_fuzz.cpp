// Fuzzes the control of a run: any bytes are lines, and each line is answered by one line.
//
// The lines of an input go to one desk, in order, as they would come through the socket. Whatever
// they say: the answer is JSON on one line with a printable text, a request that is understood
// prints and reads back, a refusal adds no fault, and the status can be asked for at the end.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "launch/control/desk.hpp"
#include "scenario/parse.hpp"

namespace {

using namespace sabot;
using launch::control::Desk;

constexpr const char* kScenario = R"(sabot = 1
ranks = 4
[[fault]]
name = "nic-dies"
when = { call = "AllReduce", rank = 1, nth = 3 }
do = { error = "SystemError" }
budget = 1
[[fault]]
name = "stormy"
when = { call = "Broadcast", switch = "storm" }
do = { error = "RemoteError" }
)";

void require(bool holds, const char* property, std::string_view evidence) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n%.*s\n", property, static_cast<int>(evidence.size()),
               evidence.data());
  std::abort();
}

// A run folder that goes with the process.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sabot-fuzz-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr, "a folder can be made", pattern);
    path_ = pattern;
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  const std::string& emptied() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      std::filesystem::remove_all(entry.path());
    return path_;
  }

 private:
  std::string path_;
};

std::size_t faults_of(Desk& desk) { return desk.status().faults.size(); }

void check_line(Desk& desk, std::string_view line) {
  const Result<launch::control::Request> request = launch::control::parse_request(line);
  if (request.ok()) {
    const auto again = launch::control::parse_request(launch::control::to_line(*request));
    require(again.ok() && *again == *request, "a request reads back", line);
  }
  const std::size_t before = faults_of(desk);
  const std::string answer = desk.answer(line);
  require(answer.find('\n') == answer.npos, "an answer is one line", answer);
  const Result<run::JsonValue> read = launch::control::parse_answer(answer);
  require(read.ok(), "an answer is read", answer);
  for (const char c : (*read)["text"].text())
    require(c == '\n' || static_cast<unsigned char>(c) >= 0x20, "an answer is printable", answer);
  if ((*read)["ok"].boolean()) {
    require(request.ok(), "only what is understood is done", line);
    return;
  }
  require(!(*read)["text"].text().empty(), "a refusal has a text", line);
  require(faults_of(desk) == before, "a refusal adds nothing", line);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Scratch scratch;
  static const scenario::Scenario scenario = *scenario::parse_toml(kScenario, "fuzz.toml");
  const std::string& folder = scratch.emptied();
  Result<run::ControlWriter> writer =
      run::ControlWriter::open(folder, launch::control::names_of(scenario));
  require(writer.ok(), "a control page can be made", folder);
  Desk desk({.run_folder = folder, .scenario = scenario, .unshared = ""},
            std::move(writer).value());
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string_view line : split(text, '\n')) check_line(desk, line);
  const Result<run::JsonValue> status = run::JsonValue::parse(to_json(desk.status()));
  require(status.ok() && (*status)["faults"].items().size() == faults_of(desk),
          "the status names every fault", text);
  return 0;
}
