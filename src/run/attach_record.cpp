// Writing the attach record of this process.
#include "run/attach_record.hpp"

#include <unistd.h>

#include "run/identity.hpp"
#include "run/json_writer.hpp"
#include "run/text_file.hpp"

namespace sabot::run {
namespace {

constexpr std::size_t kRejectedMax = 64;

void put_details(JsonWriter& json, const AttachRecord& record) {
  json.key("rejected").begin_array();
  for (std::size_t i = 0; i < record.rejected.size() && i < kRejectedMax; ++i) {
    json.begin_object();
    json.field("path", record.rejected[i].path).field("reason", record.rejected[i].reason);
    json.end_object();
  }
  json.end_array();
  json.key("armed").begin_array();
  for (const std::string& fault : record.armed) json.value(fault);
  json.end_array();
}

}  // namespace

Status write_attach_record(const std::string& run_folder, const std::string& tag,
                           const AttachRecord& record) {
  JsonWriter json(JsonWriter::Style::kIndented);
  json.begin_object();
  json.field("attached", record.attached).field("reason", record.reason);
  json.field("way", record.way).field("engine", record.engine);
  json.field("real_path", record.real_path).field("real_version", record.real_version);
  put_details(json, record);
  if (record.rank >= 0) json.field("rank", record.rank);
  json.field("attempt", record.attempt).field("launcher", record.launcher);
  json.field("host", host_name()).field("pid", ::getpid()).field("parent_pid", ::getppid());
  json.field("started_ns", now().epoch_ns);
  json.field("executable", executable_path()).field("command_line", command_line());
  json.end_object();
  return write_file(run_folder + "/attach/" + tag + ".json", json.text() + "\n");
}

}  // namespace sabot::run
