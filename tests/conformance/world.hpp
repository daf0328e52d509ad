// Worlds: communicators whose ranks are threads of this process, one thread each or all in one.
//
// A world is created once per size and kept, because creating a communicator on GPUs takes most of
// a second. A body that fails leaves a world whose ranks disagree about what comes next, so the
// world is aborted and the next test gets a new one. Ranks as processes: processes.hpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective.hpp"
#include "subject.hpp"

namespace sabot::conformance {

// What a rank found.
struct Verdict {
  std::string complaint;     // "" if all is well
  bool out_of_step = false;  // a call failed, so this rank cannot go on as the others expect
};
inline Verdict wrong(std::string complaint) { return {std::move(complaint), false}; }
inline Verdict out_of_step(std::string complaint) { return {std::move(complaint), true}; }
// The usual case: a call that should have succeeded.
Verdict verdict_of(const char* what, ncclResult_t result);

class World {
 public:
  // One communicator a rank, created by ncclCommInitRank in as many threads.
  static std::unique_ptr<World> of_threads(int ranks, ncclConfig_t* config = nullptr);
  // The same by ncclCommInitAll, in the calling thread.
  static std::unique_ptr<World> of_one_thread(int ranks);
  ~World();

  // Runs the body of every rank in a thread of its own and waits for all; complaints become
  // failures of the test. A rank out of step has the world aborted, so that the others do not wait
  // for it.
  using Body = std::function<Verdict(const Rank&, Buffers&)>;
  bool run(const Body& body);

  const std::vector<Rank>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  Buffers& buffers(int rank) { return *buffers_[static_cast<std::size_t>(rank)]; }
  // Ends every communicator by ncclCommAbort instead of ncclCommDestroy.
  void abort();
  // For bodies that ended their communicators themselves.
  void forget();

 private:
  explicit World(int ranks);
  void create_streams();

  std::vector<Rank> ranks_;
  std::vector<std::unique_ptr<Buffers>> buffers_;
};

// The kept world of this size; made anew after a failure. Null if it cannot be made (a failure was
// added).
World* threads_world(int ranks);
World* one_thread_world(int ranks);
// Runs on the kept world and drops it if the body fails.
void run_in_threads(int ranks, const World::Body& body);
void drop_worlds();

// One rank's part of many cases, in order.
Verdict run_cases(const std::vector<Case>& cases, const Rank& rank, Buffers& buffers);
// Runs every case on every rank, all of a rank's cases in one thread.
void run_cases_in_threads(int ranks, const std::vector<Case>& cases);
// Runs every case with all ranks' calls in one group of one thread.
void run_cases_in_one_thread(int ranks, const std::vector<Case>& cases);

// 1 … ranks_max of the subject, to instantiate tests with.
std::vector<int> world_sizes();

// A test whose parameter is the number of ranks; the name of an instance ends in "With3Ranks".
class WithRanks : public ::testing::TestWithParam<int> {};
std::string ranks_name(const ::testing::TestParamInfo<int>& info);

}  // namespace sabot::conformance

// Inside a body: a call that must succeed for the ranks to stay in step.
#define MUST_SUCCEED(call)                                                          \
  do {                                                                              \
    ::sabot::conformance::Verdict sabot_verdict_ =                                  \
        ::sabot::conformance::verdict_of(#call, ::sabot::conformance::nccl().call); \
    if (!sabot_verdict_.complaint.empty()) return sabot_verdict_;                   \
  } while (0)

// The suites run in worlds of every size that the subject has devices for.
#define INSTANTIATE_FOR_EVERY_WORLD(suite)                                                    \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(suite);                                       \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::ValuesIn(::sabot::conformance::world_sizes()), \
                           ::sabot::conformance::ranks_name)
