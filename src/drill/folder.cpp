// Making, finding and finishing.
#include "drill/folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "run/identity.hpp"
#include "run/json_writer.hpp"
#include "run/read/json_value.hpp"
#include "run/run_folder.hpp"
#include "run/text_file.hpp"

namespace sabot::drill {
namespace {

constexpr const char* kLatest = "runs/latest-drill";
constexpr int kAsideMax = 1000;

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Result<std::string> absolute(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  if (::realpath(path.c_str(), buffer.data()) == nullptr)
    return Error(Code::kSystem,
                 "cannot resolve the folder '" + path + "': " + run::errno_text(errno));
  return std::string(buffer.data());
}

void point_latest(const std::string& name) {
  const std::string temporary = "runs/.latest-drill." + std::to_string(::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(name.c_str(), temporary.c_str()) != 0) return;
  if (::rename(temporary.c_str(), kLatest) != 0) ::unlink(temporary.c_str());
}

Status move_aside(const std::string& path) {
  for (int number = 1; number <= kAsideMax; ++number) {
    const std::string aside = path + ".interrupted-" + std::to_string(number);
    if (exists(aside)) continue;
    if (::rename(path.c_str(), aside.c_str()) == 0) return {};
    break;
  }
  return Error(Code::kSystem, "cannot move '" + path +
                                  "' of an interrupted drill aside: " + run::errno_text(errno));
}

}  // namespace

Status CaseFolder::prepare() const {
  if (exists(path_)) SABOT_TRY(move_aside(path_));
  return run::make_folders(work());
}

std::optional<CaseFolder::Finished> CaseFolder::finished() const {
  const Result<std::string> text =
      run::read_text_file("ending", path_ + "/ending.json", {.bytes_max = 16 * 1024 * 1024});
  if (!text.ok()) return std::nullopt;
  const Result<run::JsonValue> json = run::JsonValue::parse(*text);
  Result<Ending> ending = ending_of(*text);
  if (!json.ok() || !ending.ok()) return std::nullopt;
  const run::JsonValue& check = (*json)["check"];
  return Finished{std::move(ending).value(),
                  {check["ran"].boolean(), check["agrees"].boolean(), check["text"].text()}};
}

Status CaseFolder::finish(const Finished& finished) const {
  run::JsonWriter check;
  check.begin_object();
  check.field("ran", finished.check.ran).field("agrees", finished.check.agrees);
  check.field("text", finished.check.text).end_object();
  std::string text = to_json(finished.ending);
  text.insert(text.size() - 1, ",\"check\":" + check.text());
  return run::write_file(path_ + "/ending.json", text + "\n");
}

Result<DrillFolder> DrillFolder::prepare(const std::string& path, bool resume) {
  if (resume) {
    const std::string named = path.empty() ? kLatest : path;
    if (!exists(named + "/plan.json"))
      return Error(Code::kInvalidUsage, "there is no drill to resume in '" + named +
                                            "'; name its folder with --run-folder");
    return DrillFolder(SABOT_TRY(absolute(named)), true);
  }
  const std::string name = "drill-" + run::time_and_pid();
  const std::string made = path.empty() ? "runs/" + name : path;
  if (exists(made + "/plan.json"))
    return Error(Code::kInvalidUsage, "'" + made +
                                          "' already holds a drill; finish it with --resume, or "
                                          "name another folder with --run-folder");
  SABOT_TRY(run::make_folders(made + "/cases"));
  if (path.empty()) point_latest(name);
  return DrillFolder(SABOT_TRY(absolute(made)), false);
}

CaseFolder DrillFolder::numbered(std::size_t index) const {
  std::string number = std::to_string(index + 1);
  number.insert(0, number.size() < 3 ? 3 - number.size() : 0, '0');
  return CaseFolder(path_ + "/cases/" + number);
}

Status DrillFolder::keep_plan(std::string_view plan_text, std::string_view identity) const {
  if (!is_resumed_) {
    SABOT_TRY(run::write_file(path_ + "/plan.toml", plan_text));
    return run::write_file(path_ + "/plan.json", std::string(identity) + "\n");
  }
  const std::string kept = SABOT_TRY(run::read_text_file("plan of a drill", path_ + "/plan.json"));
  if (kept == std::string(identity) + "\n") return {};
  return Error(Code::kInvalidUsage,
               "the drill in '" + path_ +
                   "' was started with another plan, command, seed or budget, so that its cases "
                   "are others; compare with its plan.toml and plan.json, or start a new drill "
                   "without --resume");
}

}  // namespace sabot::drill
