// Reading attach records back.
#include "run/read/attach_reader.hpp"

#include "run/read/folder_listing.hpp"
#include "run/read/json_value.hpp"
#include "run/text_file.hpp"

namespace sabot::run {
namespace {

AttachRecord record_of(const JsonValue& json) {
  AttachRecord record;
  record.attached = json["attached"].boolean();
  record.way = json["way"].text();
  record.engine = json["engine"].text();
  record.reason = json["reason"].text();
  record.real_path = json["real_path"].text();
  record.real_version = json["real_version"].text();
  for (const JsonValue& item : json["rejected"].items())
    record.rejected.push_back({item["path"].text(), item["reason"].text()});
  for (const JsonValue& item : json["armed"].items()) record.armed.push_back(item.text());
  record.rank = static_cast<int>(json["rank"].integer(-1));
  record.attempt = static_cast<int>(json["attempt"].integer());
  record.launcher = json["launcher"].text();
  record.host = json["host"].text();
  record.pid = json["pid"].integer();
  record.parent_pid = json["parent_pid"].integer();
  record.started_ns = json["started_ns"].natural();
  record.executable = json["executable"].text();
  record.command_line = json["command_line"].text();
  return record;
}

Result<AttachRecord> read_one(const std::string& path) {
  const std::string text = SABOT_TRY(read_text_file("attach record", path));
  Result<JsonValue> json = JsonValue::parse(text);
  if (!json.ok()) return std::move(json).error().context(path);
  return record_of(*json);
}

}  // namespace

std::vector<AttachRecord> read_attach_records(const std::string& run_folder,
                                              std::vector<std::string>& problems) {
  std::vector<AttachRecord> records;
  const std::string folder = run_folder + "/attach";
  for (const std::string& name : list_folder(folder, ".json")) {
    Result<AttachRecord> record = read_one(folder + "/" + name);
    if (record.ok())
      records.push_back(std::move(record).value());
    else
      problems.push_back(record.error().message());
  }
  return records;
}

}  // namespace sabot::run
