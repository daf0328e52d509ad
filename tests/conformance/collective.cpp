// Where each collective reads and writes, and what must stand there afterwards.
#include "collective.hpp"

#include <algorithm>
#include <cstring>

namespace sabot::conformance {
namespace {

constexpr unsigned char kPoison = 0x5a;  // output before the call, and the guard behind it
constexpr std::size_t kGuardBytes = 64;

std::size_t at_least(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }

}  // namespace

abi::FunctionId function_of(Collective collective) {
  using enum abi::FunctionId;
  switch (collective) {
    case Collective::kAllReduce: return kAllReduce;
    case Collective::kReduce: return kReduce;
    case Collective::kReduceScatter: return kReduceScatter;
    case Collective::kBroadcast: return kBroadcast;
    case Collective::kBcast: return kBcast;
    case Collective::kAllGather: return kAllGather;
    case Collective::kAlltoAll: return kAlltoAll;
    case Collective::kGather: return kGather;
    case Collective::kScatter: return kScatter;
  }
  return kAllReduce;
}

bool reduces(Collective collective) { return collective <= Collective::kReduceScatter; }

bool has_root(Collective collective) {
  return collective != Collective::kAllReduce && collective != Collective::kReduceScatter &&
         collective != Collective::kAllGather && collective != Collective::kAlltoAll;
}

bool has_in_place(Collective collective) { return collective != Collective::kAlltoAll; }

std::string Case::text() const {
  std::string text(abi::info(function_of(collective)).name);
  text += " " + name_of(type);
  if (reduces(collective)) text += " " + name_of(op);
  text += " count=" + std::to_string(count);
  if (has_root(collective)) text += " root=" + std::to_string(root);
  if (in_place) text += " in place";
  return text + " seed=" + std::to_string(seed);
}

Buffers::~Buffers() {
  if (bytes_ == 0) return;
  subject().memory->release(first_);
  subject().memory->release(second_);
}

void Buffers::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  Memory& memory = *subject().memory;
  if (bytes_ > 0) {
    memory.release(first_);
    memory.release(second_);
  }
  bytes_ = bytes * 2;
  first_ = static_cast<char*>(memory.allocate(bytes_));
  second_ = static_cast<char*>(memory.allocate(bytes_));
}

CaseRun::CaseRun(const Case& test, const Rank& rank, Buffers& buffers)
    : test_(test),
      rank_(rank),
      buffers_(buffers),
      pattern_(test.type, test.op, rank.ranks, test.seed),
      width_(bytes_of(test.type)) {
  if (test.collective == Collective::kBcast) test_.in_place = true;  // it has one buffer
}

CaseRun::~CaseRun() {
  if (op_ >= ncclNumOps) nccl().RedOpDestroy(op_, rank_.comm);
}

std::size_t CaseRun::send_elements() const {
  const bool to_each = test_.collective == Collective::kReduceScatter ||
                       test_.collective == Collective::kAlltoAll ||
                       test_.collective == Collective::kScatter;
  return to_each ? test_.count * static_cast<std::size_t>(rank_.ranks) : test_.count;
}

std::size_t CaseRun::receive_elements() const {
  const bool from_each = test_.collective == Collective::kAllGather ||
                         test_.collective == Collective::kAlltoAll ||
                         test_.collective == Collective::kGather;
  return from_each ? test_.count * static_cast<std::size_t>(rank_.ranks) : test_.count;
}

bool CaseRun::receives() const {
  const bool only_root =
      test_.collective == Collective::kReduce || test_.collective == Collective::kGather;
  return !only_root || rank_.rank == test_.root;
}

Bits CaseRun::input(int rank, std::size_t index) const {
  return reduces(test_.collective) ? pattern_.input(rank, index)
                                   : moved_bits(test_.seed, rank, index);
}

Bits CaseRun::expected(std::size_t index) const {
  const std::size_t count = std::max<std::size_t>(test_.count, 1);
  const auto from = static_cast<int>(index / count);
  const std::size_t own = static_cast<std::size_t>(rank_.rank) * count;
  switch (test_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: return pattern_.expected(index);
    case Collective::kReduceScatter: return pattern_.expected(own + index);
    case Collective::kBroadcast:
    case Collective::kBcast: return input(test_.root, index);
    case Collective::kAllGather:
    case Collective::kGather: return input(from, index % count);
    case Collective::kAlltoAll: return input(from, own + index % count);
    case Collective::kScatter: return input(test_.root, own + index);
  }
  return 0;
}

// In place the smaller buffer is that part of the larger one which belongs to this rank, or to the
// root; away from the root there is no second buffer to share with.
void CaseRun::place_buffers() {
  send_ = buffers_.first() + shift_bytes_;
  receive_ = buffers_.second() + shift_bytes_;
  if (!test_.in_place) return;
  if (send_elements() == receive_elements()) {
    receive_ = send_;
    return;
  }
  const bool by_root = has_root(test_.collective);
  if (by_root && rank_.rank != test_.root) return;
  const auto owner = static_cast<std::size_t>(by_root ? test_.root : rank_.rank);
  char* const whole = send_;
  char* const part = whole + owner * test_.count * width_;
  send_ = send_elements() > test_.count ? whole : part;
  receive_ = send_elements() > test_.count ? part : whole;
}

void CaseRun::prepare() {
  // Three elements at most: enough to break any assumption of alignment to a vector.
  shift_bytes_ = test_.seed % 4 * width_;
  const std::size_t send_bytes = send_elements() * width_;
  const std::size_t receive_bytes = receive_elements() * width_;
  buffers_.reserve(at_least(shift_bytes_ + std::max(send_bytes, receive_bytes) + kGuardBytes));
  place_buffers();
  Memory& memory = *subject().memory;
  std::vector<unsigned char> bytes(receive_bytes + kGuardBytes, kPoison);
  memory.write(receive_, bytes.data(), bytes.size(), rank_.stream);
  bytes.resize(send_bytes);
  for (std::size_t i = 0; i < send_elements(); ++i) {
    const Bits bits = input(rank_.rank, i);
    std::memcpy(bytes.data() + i * width_, &bits, width_);
  }
  memory.write(send_, bytes.data(), bytes.size(), rank_.stream);
  if (reduces(test_.collective) && test_.op != Op::kPreMulSum) op_ = builtin(test_.op);
  if (reduces(test_.collective) && test_.op == Op::kPreMulSum) {
    Bits scalar = pattern_.scalar(rank_.rank);
    EXPECT_RESULT(ncclSuccess, nccl().RedOpCreatePreMulSum(&op_, &scalar, test_.type,
                                                           ncclScalarHostImmediate, rank_.comm));
  }
}

ncclResult_t CaseRun::call() {
  const Api& api = nccl();
  const Case& t = test_;
  const ncclComm_t comm = rank_.comm;
  const Stream stream = rank_.stream;
  switch (t.collective) {
    case Collective::kAllReduce:
      return api.AllReduce(send_, receive_, t.count, t.type, op_, comm, stream);
    case Collective::kReduce:
      return api.Reduce(send_, receive_, t.count, t.type, op_, t.root, comm, stream);
    case Collective::kReduceScatter:
      return api.ReduceScatter(send_, receive_, t.count, t.type, op_, comm, stream);
    case Collective::kBroadcast:
      return api.Broadcast(send_, receive_, t.count, t.type, t.root, comm, stream);
    case Collective::kBcast: return api.Bcast(send_, t.count, t.type, t.root, comm, stream);
    case Collective::kAllGather:
      return api.AllGather(send_, receive_, t.count, t.type, comm, stream);
    case Collective::kAlltoAll: return api.AlltoAll(send_, receive_, t.count, t.type, comm, stream);
    case Collective::kGather:
      return api.Gather(send_, receive_, t.count, t.type, t.root, comm, stream);
    case Collective::kScatter:
      return api.Scatter(send_, receive_, t.count, t.type, t.root, comm, stream);
  }
  return ncclInvalidArgument;
}

std::string CaseRun::verify_untouched(const std::vector<unsigned char>& bytes,
                                      std::size_t from) const {
  for (std::size_t i = from; i < bytes.size(); ++i)
    if (bytes[i] != kPoison)
      return "byte " + std::to_string(i - from) + " behind the output was written";
  return "";
}

std::string CaseRun::verify() {
  Memory& memory = *subject().memory;
  if (receives()) {
    const std::size_t elements = receive_elements();
    // What follows a part of the input buffer is input, not guard.
    const bool guarded = !test_.in_place || send_elements() <= test_.count;
    std::vector<unsigned char> bytes(elements * width_ + (guarded ? kGuardBytes : 0));
    memory.read(bytes.data(), receive_, bytes.size(), rank_.stream);
    for (std::size_t i = 0; i < elements; ++i) {
      Bits got = 0;
      Bits wanted = expected(i);
      std::memcpy(&got, bytes.data() + i * width_, width_);
      wanted &= ~Bits{0} >> (64 - 8 * width_);
      if (!same(test_.type, got, wanted))
        return "element " + std::to_string(i) + " is " + show(test_.type, got) + ", not " +
               show(test_.type, wanted);
    }
    if (guarded) {
      const std::string touched = verify_untouched(bytes, elements * width_);
      if (!touched.empty()) return touched;
    }
  }
  if (test_.in_place) return "";
  std::vector<unsigned char> sent(send_elements() * width_);
  memory.read(sent.data(), send_, sent.size(), rank_.stream);
  for (std::size_t i = 0; i < send_elements(); ++i) {
    const Bits bits = input(rank_.rank, i);
    if (std::memcmp(sent.data() + i * width_, &bits, width_) != 0)
      return "input element " + std::to_string(i) + " was changed";
  }
  return "";
}

std::string run_case(const Case& test, const Rank& rank, Buffers& buffers, bool* fatal) {
  CaseRun run(test, rank, buffers);
  run.prepare();
  *fatal = true;
  if (const ncclResult_t result = run.call(); result != ncclSuccess)
    return test.text() + ": returned " + text_of(result) + " (" + nccl().GetLastError(nullptr) +
           ")";
  if (const std::string error = subject().memory->synchronize(rank.stream); !error.empty())
    return test.text() + ": " + error;
  *fatal = false;
  const std::string wrong = run.verify();
  return wrong.empty() ? "" : test.text() + ": " + wrong;
}

}  // namespace sabot::conformance
