// Rows in, torch's dictionary out.
#include "pytorch/group/recorder.hpp"

#include <ATen/core/ivalue.h>
#include <c10/util/ApproximateClock.h>

#include <torch/csrc/jit/serialization/pickler.h>
#include <cstdio>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "pytorch/version.hpp"

// Before, the writer was part of the CUDA build.
#if SABOT_TORCH_AT_LEAST(2, 11)
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>
#define SABOT_TORCH_WRITES 1
#endif

#include "pytorch/library.hpp"

namespace sabot::pytorch {
namespace {

using Dict = c10::Dict<c10::IValue, c10::IValue>;
using List = c10::List<c10::IValue>;

// The version of torch's format that these keys follow.
constexpr const char* kFormat = "2.10";
constexpr int kRowsDefault = 2000;

Dict new_dict() { return Dict(c10::AnyType::get(), c10::AnyType::get()); }
List new_list() { return List(c10::AnyType::get()); }

std::int64_t now_ns() { return c10::getTime(); }

int rows_wanted() {
  return ::c10d::getCvarInt({"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, kRowsDefault);
}

bool is_wanted_on_timeout() {
  return ::c10d::getCvarBool({"TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT"}, true);
}

std::string text_of(const std::vector<std::int64_t>& ranks) {
  std::string text = "[";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text + "]";
}

// Shapes and types of `count` tensors, from where the iterators stand.
void dump_tensors(Dict& into, const char* sizes_key, const char* types_key, std::size_t count,
                  std::vector<std::int64_t>::const_iterator& shape,
                  std::vector<at::ScalarType>::const_iterator& type) {
  List sizes = new_list();
  List types = new_list();
  for (std::size_t i = 0; i < count; ++i) {
    List dimensions = new_list();
    for (std::int64_t left = *shape++; left > 0; --left) dimensions.push_back(*shape++);
    sizes.push_back(dimensions);
    types.push_back(std::string(c10::toString(*type++)));
  }
  into.insert(sizes_key, sizes);
  into.insert(types_key, types);
}

std::string pickle(const c10::IValue& value) {
  std::string bytes;
  torch::jit::Pickler pickler(
      [&bytes](const char* data, std::size_t size) { bytes.append(data, size); });
  pickler.protocol();
  pickler.pushIValue(value);
  pickler.stop();
  return bytes;
}

}  // namespace

Recorder& Recorder::get() {
  static auto* recorder = new Recorder();  // outlives every thread
  return *recorder;
}

Recorder::Recorder() { rows_.resize(static_cast<std::size_t>(std::max(rows_wanted(), 0))); }

int Recorder::add_group(const std::string& name, int rank,
                        const std::vector<std::int64_t>& global_ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.push_back({name, "sabot", rank, global_ranks});
  return static_cast<int>(groups_.size()) - 1;
}

void Recorder::describe(Row& row, const Operation& operation) {
  row.shapes.clear();
  row.types.clear();
  row.inputs = static_cast<std::uint32_t>(operation.inputs.size());
  for (const c10::ArrayRef<at::Tensor>& tensors : {operation.inputs, operation.outputs}) {
    for (const at::Tensor& tensor : tensors) {
      const c10::IntArrayRef sizes = tensor.sizes();
      row.shapes.push_back(static_cast<std::int64_t>(sizes.size()));
      row.shapes.insert(row.shapes.end(), sizes.begin(), sizes.end());
      row.types.push_back(tensor.scalar_type());
    }
  }
  row.operation = operation;
  row.operation.inputs = row.operation.outputs = {};
}

std::uint64_t Recorder::begin(int group, const Operation& operation) {
  if (rows_.empty()) return kNoRow;
  const std::int64_t created_ns = now_ns();
  const std::lock_guard<std::mutex> lock(mutex_);
  Row& row = rows_[next_ % rows_.size()];
  row.number = next_++;
  row.group = group;
  row.created_ns = created_ns;
  row.completed_ns = 0;
  row.is_retired = false;
  describe(row, operation);
  Group& of = groups_[static_cast<std::size_t>(group)];
  of.enqueued = std::max(of.enqueued, operation.collective);
  return row.number;
}

void Recorder::end(std::uint64_t number, bool succeeded) {
  if (number == kNoRow) return;
  const std::int64_t ended_ns = now_ns();
  const std::lock_guard<std::mutex> lock(mutex_);
  Row& row = rows_[number % rows_.size()];
  if (row.number != number) return;  // overwritten by a newer one
  row.is_retired = true;
  if (!succeeded) return;
  row.completed_ns = ended_ns;
  Group& of = groups_[static_cast<std::size_t>(row.group)];
  of.completed = std::max(of.completed, row.operation.collective);
}

// torch's analysis takes operations for what they are only under NCCL's names: "nccl:all_reduce",
// "nccl:send 0->1", "nccl:recv 0<-1".
std::string Recorder::name_of(const Row& row, const Group& group) {
  const std::string title = row.operation.title;
  const std::string operation = title.substr(title.find(':') + 1);
  if (!row.operation.is_p2p) return "nccl:" + operation;
  const bool sends = operation == "send";
  return std::string(sends ? "nccl:send " : "nccl:recv ") + std::to_string(group.rank) +
         (sends ? "->" : "<-") + std::to_string(row.operation.peer);
}

c10::IValue Recorder::dump_row(const Row& row) const {
  const Group& group = groups_[static_cast<std::size_t>(row.group)];
  Dict out = new_dict();
  auto shape = row.shapes.begin();
  auto type = row.types.begin();
  out.insert("frames", new_list());
  out.insert("record_id", static_cast<std::int64_t>(row.number - 1));
  out.insert("pg_id", static_cast<std::int64_t>(row.group));
  out.insert("process_group", std::make_tuple(group.name, group.description));
  out.insert("collective_seq_id", static_cast<std::int64_t>(row.operation.collective));
  out.insert("p2p_seq_id", static_cast<std::int64_t>(row.operation.p2p));
  out.insert("op_id", static_cast<std::int64_t>(row.operation.collective + row.operation.p2p));
  out.insert("profiling_name", name_of(row, group));
  out.insert("time_created_ns", row.created_ns);
  dump_tensors(out, "input_sizes", "input_dtypes", row.inputs, shape, type);
  dump_tensors(out, "output_sizes", "output_dtypes", row.types.size() - row.inputs, shape, type);
  const bool is_done = row.completed_ns != 0;
  out.insert("state", std::string(is_done ? "completed" : "started"));
  out.insert("time_discovered_started_ns", row.created_ns);
  out.insert("time_discovered_completed_ns",
             is_done ? c10::IValue(row.completed_ns) : c10::IValue());
  if (is_done) {
    out.insert("duration_ms", static_cast<double>(row.completed_ns - row.created_ns) / 1e6);
  }
  out.insert("retired", row.is_retired);
  out.insert("timeout_ms", static_cast<std::int64_t>(row.operation.timeout.count()));
  out.insert("is_p2p", row.operation.is_p2p);
  return out;
}

c10::IValue Recorder::dump_groups() const {
  Dict out = new_dict();
  for (const Group& group : groups_) {
    Dict row = new_dict();
    row.insert("name", group.name);
    row.insert("desc", group.description);
    row.insert("ranks", text_of(group.global_ranks));
    out.insert(group.name, row);
  }
  return out;
}

c10::IValue Recorder::dump_status() const {
  Dict out = new_dict();
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Dict row = new_dict();
    row.insert("last_enqueued_collective", static_cast<std::int64_t>(groups_[i].enqueued));
    row.insert("last_started_collective", static_cast<std::int64_t>(groups_[i].enqueued));
    row.insert("last_completed_collective", static_cast<std::int64_t>(groups_[i].completed));
    out.insert(std::to_string(i), row);
  }
  return out;
}

std::string Recorder::dump() {
  const std::lock_guard<std::mutex> lock(mutex_);
  List entries = new_list();
  const std::uint64_t kept = rows_.size();
  for (std::uint64_t number = next_ > kept ? next_ - kept : 1; number < next_; ++number) {
    entries.push_back(dump_row(rows_[number % kept]));
  }
  Dict out = new_dict();
  out.insert("version", std::string(kFormat));
  out.insert("pg_config", dump_groups());
  out.insert("comm_lib_version", "sabot " + library().version);
  out.insert("pg_status", dump_status());
  out.insert("entries", entries);
  return pickle(out);
}

std::string Recorder::write(int global_rank) {
  if (rows_.empty() || !is_wanted_on_timeout()) return {};
  const std::string bytes = dump();
#ifdef SABOT_TORCH_WRITES
  ::c10d::DebugInfoWriter& writer = ::c10d::DebugInfoWriter::getWriter(global_rank);
  writer.write(bytes);
  return writer.getWriterTarget();
#else
  const std::string name =
      ::c10d::getCvarString({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}, "/tmp/nccl_trace_rank_") +
      std::to_string(global_rank);
  std::FILE* file = std::fopen(name.c_str(), "wb");
  if (file == nullptr) return {};
  const bool is_whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && is_whole ? name : std::string();
#endif
}

}  // namespace sabot::pytorch
