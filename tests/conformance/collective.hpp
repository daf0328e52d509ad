// One collective call as a test case: filling its buffers, making the call, judging the result.
//
// A case is data; every world (ranks as threads, in one thread, as processes) runs the same cases.
// A CaseRun is one rank's part: prepare, call, then verify once the stream is done. Buffers are
// shifted by some elements and end in guard bytes, so that a subject that assumes alignment or
// writes past its end is caught.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pattern.hpp"
#include "subject.hpp"

namespace sabot::conformance {

enum class Collective {
  kAllReduce,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kBcast,
  kAllGather,
  kAlltoAll,
  kGather,
  kScatter,
};

abi::FunctionId function_of(Collective collective);
bool reduces(Collective collective);
bool has_root(Collective collective);
// Whether input and output may be one buffer; NCCL defines it for everything but AlltoAll.
bool has_in_place(Collective collective);

struct Case {
  Collective collective;
  ncclDataType_t type = ncclFloat32;
  Op op = Op::kSum;
  std::size_t count = 0;
  int root = 0;
  bool in_place = false;
  std::uint64_t seed = 0;

  std::string text() const;  // "AllReduce float16 sum count=17 in place"
};

// A rank as a case sees it: its place in a communicator and a stream to enqueue on.
struct Rank {
  int rank = 0;
  int ranks = 1;
  ncclComm_t comm = nullptr;
  Stream stream = nullptr;
};

// The memory of one rank, grown when a case needs more and reused by the next one.
class Buffers {
 public:
  Buffers() = default;
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers();
  // Two areas of at least this many bytes each.
  void reserve(std::size_t bytes);
  char* first() const { return first_; }
  char* second() const { return second_; }

 private:
  char* first_ = nullptr;
  char* second_ = nullptr;
  std::size_t bytes_ = 0;
};

class CaseRun {
 public:
  CaseRun(const Case& test, const Rank& rank, Buffers& buffers);
  ~CaseRun();
  CaseRun(const CaseRun&) = delete;
  CaseRun& operator=(const CaseRun&) = delete;

  // Fills the buffers, creates the reduction if the case needs one of its own.
  void prepare();
  ncclResult_t call();
  // "" or the first wrong element, once the stream is done.
  std::string verify();

 private:
  void place_buffers();
  std::size_t send_elements() const;
  std::size_t receive_elements() const;
  bool receives() const;
  Bits input(int rank, std::size_t index) const;
  Bits expected(std::size_t index) const;
  std::string verify_untouched(const std::vector<unsigned char>& bytes, std::size_t from) const;

  Case test_;
  Rank rank_;
  Buffers& buffers_;
  ReductionPattern pattern_;
  ncclRedOp_t op_ = ncclSum;
  std::size_t width_;
  std::size_t shift_bytes_ = 0;  // where the data begins in its area
  char* send_ = nullptr;
  char* receive_ = nullptr;
};

// The whole life of a case on one rank: prepare, call, wait, verify. "" or what went wrong; *fatal
// tells a failed call, after which the communicator cannot be trusted, from a wrong result.
std::string run_case(const Case& test, const Rank& rank, Buffers& buffers, bool* fatal);

}  // namespace sabot::conformance
