// One case per argument that can differ, one check that all share: do the buffers still fit.
#include "layer/payload/mismatch.hpp"

#include <algorithm>
#include <limits>

#include "abi/names.hpp"
#include "layer/payload/extents.hpp"

namespace sabot::layer {
namespace {

using scenario::MismatchKind;

std::string name_of(abi::FunctionId function) { return abi::info(function).public_name; }

bool has_root(abi::FunctionId function) { return abi::info(function).has_root; }
bool has_redop(abi::FunctionId function) { return abi::info(function).has_redop; }
bool is_created(int redop) { return redop >= static_cast<int>(ncclNumOps); }

Error refused(const abi::Call& call, const std::string& why) {
  return Error(Code::kUnsupported, name_of(call.function) + " is left as it is: " + why);
}
Error refused_same(const abi::Call& call, const std::string& what) {
  return refused(call, what + " already, so nothing would differ");
}

// The real library compares nothing. That is safe for this rank while its peers reach it through
// buffers of the library's own, which are as large on both sides.
Status check_setting(const abi::Call& call, const MismatchSetting& setting) {
  if (abi::info(call.function).kind == abi::Kind::one_sided)
    return refused(call, "it is one-sided, its peer does not say what it expects");
  if (call.comm_ranks == 1)
    return refused(call, "the communicator has one rank, nobody could disagree with it");
  if (call.count == 0) return refused(call, "with a count of 0 it tells its peers nothing");
  if (!setting.is_real) return {};
  if (setting.shares_process)
    return refused(call,
                   "another rank of its communicator lives in this process, and NCCL lets "
                   "such ranks write into each other's buffers");
  if (setting.has_registered)
    return refused(call,
                   "buffers are registered with its communicator, and NCCL lets peers write "
                   "into those");
  if (setting.is_captured)
    return refused(call,
                   "its stream is being captured, and NCCL lets peers write into the buffers "
                   "of a graph");
  return {};
}

std::uint64_t bytes_of_elements(std::uint64_t elements, int datatype) {
  return elements * abi::datatype_bytes(datatype);  // does not overflow: see extents_of
}

class Replacement {
 public:
  Replacement(const abi::Call& call, const Extents& own) : call_(call), own_(own) {
    made_.function = call.function;
    made_.send = call.send;
    made_.recv = call.recv;
    made_.count = call.count;
    made_.datatype = static_cast<ncclDataType_t>(call.datatype);
    made_.redop = static_cast<ncclRedOp_t>(std::max(call.redop, 0));
    made_.root = std::max(call.root, 0);
  }

  Result<Mismatched> made(const scenario::Act& act) {
    switch (act.mismatch) {
      case MismatchKind::kCount: SABOT_TRY(set_count(act.to_number)); break;
      case MismatchKind::kDatatype: SABOT_TRY(set_datatype(act.to_number)); break;
      case MismatchKind::kRedop: SABOT_TRY(set_redop(act.to_number)); break;
      case MismatchKind::kRoot: SABOT_TRY(set_root(act.to_number)); break;
      case MismatchKind::kCall: SABOT_TRY(set_function(act.to_function)); break;
    }
    SABOT_TRY(fit());
    return std::move(made_);
  }

 private:
  Status set_count(std::int64_t count) {
    if (count < 0) return refused(call_, "a count cannot be " + std::to_string(count));
    made_.count = static_cast<std::size_t>(count);
    if (made_.count == call_.count)
      return refused_same(call_, "its count is " + std::to_string(count));
    if (made_.count > call_.count)
      return refused(call_, "its buffers hold " + std::to_string(call_.count) +
                                " elements, a count of " + std::to_string(count) +
                                " needs more; ask for a smaller one");
    made_.text = "count " + std::to_string(count) + " instead of " + std::to_string(call_.count);
    return {};
  }

  Status set_datatype(std::int64_t datatype) {
    const int wanted = static_cast<int>(datatype);
    const std::string name(abi::datatype_name(wanted));
    const std::string own_name(abi::datatype_name(call_.datatype));
    if (name.empty()) return refused(call_, std::to_string(datatype) + " is no data type of NCCL");
    if (wanted == call_.datatype) return refused_same(call_, "its data type is " + name);
    if (abi::datatype_bytes(wanted) > abi::datatype_bytes(call_.datatype))
      return refused(call_, "its buffers hold elements of " + own_name + ", those of " + name +
                                " are larger; ask for a data type that is not");
    if (has_redop(call_.function) && is_created(call_.redop))
      return refused(call_, "the application made its reduction for " + own_name + " alone");
    made_.datatype = static_cast<ncclDataType_t>(wanted);
    made_.text = "data type " + name + " instead of " + own_name;
    return {};
  }

  Status set_redop(std::int64_t redop) {
    if (!has_redop(call_.function)) return refused(call_, "it has no reduction");
    const int wanted = static_cast<int>(redop);
    if (wanted < 0 || is_created(wanted))
      return refused(call_, std::to_string(redop) + " is no built-in reduction of NCCL");
    const std::string name(abi::redop_name(wanted));
    if (wanted == call_.redop) return refused_same(call_, "its reduction is " + name);
    made_.redop = static_cast<ncclRedOp_t>(wanted);
    made_.text = "reduction " + name + " instead of " + std::string(abi::redop_name(call_.redop));
    return {};
  }

  Status set_root(std::int64_t root) {
    if (!has_root(call_.function)) return refused(call_, "it has no root");
    if (root < 0 || root >= call_.comm_ranks)
      return refused(call_, "root " + std::to_string(root) + " is no rank of its communicator of " +
                                std::to_string(call_.comm_ranks));
    if (root == call_.root) return refused_same(call_, "its root is " + std::to_string(root));
    made_.root = static_cast<int>(root);
    made_.text = "root " + std::to_string(root) + " instead of " + std::to_string(call_.root);
    return {};
  }

  // The largest count whose buffers fit; the caller's if they allow it.
  Status set_function(std::optional<abi::FunctionId> function) {
    const auto is_collective = [](abi::FunctionId id) {
      return abi::info(id).kind == abi::Kind::collective && payload_of(id).is_any();
    };
    if (!is_collective(call_.function)) return refused(call_, "it is no collective");
    if (!function || !is_collective(*function))
      return refused(call_, "what should take its place is no collective");
    if (is_broadcast(*function) ? is_broadcast(call_.function) : *function == call_.function)
      return refused_same(call_, "it is " + name_of(*function));
    made_.function = *function;
    const Extents one = SABOT_TRY(extents_with(1));
    const std::uint64_t input = own_.input > 0 ? own_.input : own_.output;
    if (one.input > 0) made_.count = std::min(made_.count, input / one.input);
    if (one.output > 0) made_.count = std::min(made_.count, own_.output / one.output);
    if (made_.count == 0)
      return refused(call_, "its buffers are too small for one element of " + name_of(*function));
    made_.text = name_of(*function) + " of " + std::to_string(made_.count) + " elements";
    if (has_root(*function)) made_.text += " with root " + std::to_string(made_.root);
    made_.text += " instead of " + name_of(call_.function) + " of " + std::to_string(call_.count);
    return {};
  }
  static bool is_broadcast(abi::FunctionId function) {
    return function == abi::FunctionId::kBroadcast || function == abi::FunctionId::kBcast;
  }

  Result<Extents> extents_with(std::size_t count) const {
    Shape shape = shape_of(call_);
    shape.function = made_.function;
    shape.count = count;
    shape.datatype = made_.datatype;
    shape.root = made_.root;
    return extents_of(shape);
  }

  // Whether what the replacement needs was handed over. A rank that brought no input because it is
  // not the root may send what lies in its output buffer; the reverse would write to what the
  // caller said is only read.
  Status fit() {
    const Extents needed = SABOT_TRY(extents_with(made_.count));
    const std::uint64_t input = bytes_of_elements(own_.input, call_.datatype);
    const std::uint64_t output = bytes_of_elements(own_.output, call_.datatype);
    const std::uint64_t needed_input = bytes_of_elements(needed.input, made_.datatype);
    const std::uint64_t needed_output = bytes_of_elements(needed.output, made_.datatype);
    const bool sends_output = input == 0 && needed_input > 0;
    if (needed_input > (sends_output ? output : input)) return too_small("input", needed_input);
    if (needed_output > output) return too_small("output", needed_output);
    // The older Bcast has one buffer for both.
    if (sends_output || made_.function == abi::FunctionId::kBcast) made_.send = call_.recv;
    return {};
  }
  Error too_small(const std::string& side, std::uint64_t needed) const {
    std::string text = "rank " + std::to_string(call_.rank) + " would need ";
    text += "an " + side + " buffer of " + std::to_string(needed) + " bytes for ";
    text += made_.text + ", and brought none as large";
    return refused(call_, text);
  }

  const abi::Call& call_;
  const Extents own_;
  Mismatched made_;
};

}  // namespace

Result<Mismatched> mismatch_of(const scenario::Act& act, const abi::Call& call,
                               const MismatchSetting& setting) {
  SABOT_TRY(check_setting(call, setting));
  const Extents own = SABOT_TRY(extents_of(call));
  return Replacement(call, own).made(act);
}

ncclResult_t forward_other(const abi::Api& next, abi::Call& call, const Mismatched& other) {
  using Id = abi::FunctionId;
  abi::Call made = call;
  made.function = other.function;
  made.count = other.count;
  made.bytes = bytes_of_elements(other.count, other.datatype);
  made.redop = has_redop(other.function) ? static_cast<int>(other.redop) : -1;
  made.root = has_root(other.function) ? other.root : -1;
  made.send = other.send;
  made.recv = other.recv;
  made.in_place = other.send == other.recv;

  const abi::ApiTable& table = *next.table;
  const auto comm = static_cast<ncclComm_t>(const_cast<void*>(call.comm));
  const auto stream = static_cast<cudaStream_t>(const_cast<void*>(call.stream));
  const auto forward = [&](auto slot, auto... between) {
    return (table.*slot)(next.self, &made, other.send, other.recv, other.count, other.datatype,
                         between..., comm, stream);
  };
  ncclResult_t result = ncclInternalError;
  switch (other.function) {
    case Id::kAllReduce: result = forward(&abi::ApiTable::AllReduce, other.redop); break;
    case Id::kReduceScatter: result = forward(&abi::ApiTable::ReduceScatter, other.redop); break;
    case Id::kReduce: result = forward(&abi::ApiTable::Reduce, other.redop, other.root); break;
    case Id::kBroadcast: result = forward(&abi::ApiTable::Broadcast, other.root); break;
    case Id::kGather: result = forward(&abi::ApiTable::Gather, other.root); break;
    case Id::kScatter: result = forward(&abi::ApiTable::Scatter, other.root); break;
    case Id::kAllGather: result = forward(&abi::ApiTable::AllGather); break;
    case Id::kAlltoAll: result = forward(&abi::ApiTable::AlltoAll); break;
    case Id::kBcast:
      result = table.Bcast(next.self, &made, other.recv, other.count, other.datatype, other.root,
                           comm, stream);
      break;
    case Id::kSend:
      result = table.Send(next.self, &made, other.send, other.count, other.datatype, call.peer,
                          comm, stream);
      break;
    case Id::kRecv:
      result = table.Recv(next.self, &made, other.recv, other.count, other.datatype, call.peer,
                          comm, stream);
      break;
    default: break;  // mismatch_of makes no other
  }
  call.injected = made.injected;
  return result;
}

}  // namespace sabot::layer
