// What torch calls the flight recorder: the last operations of this process, written to a file when
// one hangs.
//
// torch's own recorder class cannot be shared (its instance is hidden in libtorch) and takes a
// Python traceback, hence the interpreter's lock, for every operation. This one is a ring of plain
// rows that costs a lock and a few stores; what it writes is torch's file format, by torch's own
// writer where this torch has one, so that `torchfrtrace` reads it. The same variables rule it:
// TORCH_FR_BUFFER_SIZE, TORCH_NCCL_DUMP_ON_TIMEOUT, TORCH_FR_DUMP_TEMP_FILE and their older names.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace sabot::pytorch {

class Recorder {
 public:
  static constexpr std::uint64_t kNoRow = 0;

  struct Operation {
    const char* title = "";        // "sabot:all_reduce"
    int peer = -1;                 // of a message; -1: any source
    std::uint64_t collective = 0;  // its number in the group, 0 = point to point
    std::uint64_t p2p = 0;
    bool is_p2p = false;
    std::chrono::milliseconds timeout{0};
    c10::ArrayRef<at::Tensor> inputs;
    c10::ArrayRef<at::Tensor> outputs;
  };

  static Recorder& get();

  // A group of this process; the number identifies it in rows.
  int add_group(const std::string& name, int rank, const std::vector<std::int64_t>& global_ranks);
  // Returns the number of the row, kNoRow while switched off.
  std::uint64_t begin(int group, const Operation& operation);
  void end(std::uint64_t row, bool succeeded);

  // The file for this global rank; its name, "" if that is switched off or failed.
  std::string write(int global_rank);
  // The same content, in torch's pickle format.
  std::string dump();

 private:
  struct Row {
    std::uint64_t number = 0;
    int group = 0;
    Operation operation;  // its tensors are gone; only the shapes below remain
    std::int64_t created_ns = 0;
    std::int64_t completed_ns = 0;
    bool is_retired = false;
    std::uint32_t inputs = 0;          // how many of the shapes are inputs
    std::vector<std::int64_t> shapes;  // for each tensor: dimensions, then sizes
    std::vector<at::ScalarType> types;
  };
  struct Group {
    std::string name;
    std::string description;
    int rank;
    std::vector<std::int64_t> global_ranks;
    std::uint64_t enqueued = 0;
    std::uint64_t completed = 0;
  };

  Recorder();
  static void describe(Row& row, const Operation& operation);
  static std::string name_of(const Row& row, const Group& group);
  c10::IValue dump_row(const Row& row) const;
  c10::IValue dump_groups() const;
  c10::IValue dump_status() const;

  std::mutex mutex_;
  std::vector<Row> rows_;
  std::vector<Group> groups_;
  std::uint64_t next_ = 1;
};

}  // namespace sabot::pytorch
