// Ranks as processes: what launchers and forking programs do, and what is left when one of them
// dies.
#include "processes.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "array.hpp"
#include "checks.hpp"

namespace sabot::conformance {
namespace {

Verdict play_collectives(const Rank& own, Buffers& buffers) {
  std::vector<Case> cases;
  for (int i = 0; i <= static_cast<int>(Collective::kScatter); ++i) {
    const auto collective = static_cast<Collective>(i);
    if (!reason_without(function_of(collective)).empty()) continue;
    for (const ncclDataType_t type : {ncclFloat16, ncclFloat32, ncclUint64}) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{4097}}) {
        Case test{collective, type, Op::kSum, count, 0, false, cases.size() + 1};
        test.in_place = has_in_place(collective) && cases.size() % 2 == 1;
        test.root = static_cast<int>(cases.size()) % own.ranks;
        cases.push_back(test);
      }
    }
  }
  cases.push_back({Collective::kAllReduce, ncclFloat32, Op::kSum, 300000, 0, false, 1});
  return run_cases(cases, own, buffers);
}

Verdict play_split(const Rank& own, Buffers& buffers) {
  ncclComm_t child = nullptr;
  MUST_SUCCEED(CommSplit(own.comm, own.rank % 2, own.rank, &child, nullptr));
  const Rank member{own.rank / 2, (own.ranks + 1 - own.rank % 2) / 2, child, own.stream};
  const Verdict verdict =
      run_cases({{Collective::kAllReduce, ncclFloat32, Op::kSum, 17, 0, false, 1},
                 {Collective::kAllGather, ncclInt32, Op::kSum, 5, 0, true, 2}},
                member, buffers);
  if (!verdict.complaint.empty()) return verdict;
  return verdict_of("CommDestroy", nccl().CommDestroy(child));
}

Verdict play_messages(const Rank& own, Buffers&) {
  const int next = (own.rank + 1) % own.ranks;
  const int previous = (own.rank + own.ranks - 1) % own.ranks;
  const Array<std::uint32_t> out(
      std::vector<std::uint32_t>(50000, static_cast<std::uint32_t>(own.rank)), own.stream);
  const Array<std::uint32_t> in(50000, own.stream);
  MUST_SUCCEED(GroupStart());
  MUST_SUCCEED(Send(out.data(), 50000, ncclUint32, next, own.comm, own.stream));
  MUST_SUCCEED(Recv(in.data(), 50000, ncclUint32, previous, own.comm, own.stream));
  MUST_SUCCEED(GroupEnd());
  return wrong(differs("received", in.get(),
                       std::vector<std::uint32_t>(50000, static_cast<std::uint32_t>(previous))));
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Case C14: the last rank dies; each survivor is told so, by name, within five seconds.
Verdict play_death(const Rank& own, Buffers&) {
  constexpr auto kToldWithin = std::chrono::seconds(5);
  float value = 1;
  MUST_SUCCEED(AllReduce(&value, &value, 1, ncclFloat32, ncclSum, own.comm, nullptr));
  if (own.rank == own.ranks - 1) raise(SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  const ncclResult_t result =
      nccl().AllReduce(&value, &value, 1, ncclFloat32, ncclSum, own.comm, nullptr);
  const auto took = std::chrono::steady_clock::now() - begin;
  const std::string said = nccl().GetLastError(own.comm);
  if (result != ncclRemoteError) return out_of_step("got " + text_of(result) + " (" + said + ")");
  if (took > kToldWithin) return out_of_step("was told after more than 5 s");
  const std::string name = "rank " + std::to_string(own.ranks - 1);
  if (!contains(said, name.c_str())) return out_of_step("'" + said + "' does not name " + name);
  // Out of step without a complaint: the communicator is aborted, the process ends well.
  return {"", true};
}

// Case C9: the process ends while its communicators are open.
Verdict play_leave(const Rank& own, Buffers&) {
  const Verdict verdict = works(own.comm, own.rank, own.ranks, own.stream);
  if (!verdict.complaint.empty()) return verdict;
  std::exit(0);
}

// Case C17: a child forked after initialisation. What it inherited is refused, what it makes works,
// and the parent does not notice.
Verdict play_fork(const Rank& own, Buffers&) {
  const Verdict before = works(own.comm, own.rank, own.ranks, own.stream);
  if (!before.complaint.empty()) return before;
  const pid_t child = fork();
  if (child == 0) {
    float value = 1;
    ncclComm_t fresh = nullptr;
    const bool refused =
        nccl().AllReduce(&value, &value, 1, ncclFloat32, ncclSum, own.comm, nullptr) != ncclSuccess;
    const bool made =
        nccl().CommInitAll(&fresh, 1, nullptr) == ncclSuccess &&
        nccl().AllReduce(&value, &value, 1, ncclFloat32, ncclSum, fresh, nullptr) == ncclSuccess &&
        nccl().CommDestroy(fresh) == ncclSuccess;
    _exit((refused ? 0 : 1) + (made ? 0 : 2));
  }
  int status = 0;
  waitpid(child, &status, 0);
  const Verdict after = works(own.comm, own.rank, own.ranks, own.stream);
  if (!after.complaint.empty()) return after;
  if (status == 0) return {};
  return wrong("the child ended with status " + std::to_string(status) +
               ": 256 = the inherited communicator worked, 512 = its own did not");
}

// Case C13: one rank calls with another count; all are told both.
Verdict play_mismatch(const Rank& own, Buffers&) {
  std::vector<float> data(64, 1.0f);
  const std::size_t count = own.rank == 0 ? 41 : 53;
  const ncclResult_t result =
      nccl().AllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, own.comm, nullptr);
  const std::string said = nccl().GetLastError(own.comm);
  if (result == ncclSuccess) return out_of_step("the mismatch was not noticed");
  if (!contains(said, "41") || !contains(said, "53"))
    return out_of_step("'" + said + "' does not name both counts");
  return {"", true};
}

class Processes : public WithRanks {
 protected:
  void expect_success(const char* scenario) {
    const std::vector<ProcessEnd> ends = run_processes(scenario, GetParam());
    for (std::size_t rank = 0; rank < ends.size(); ++rank)
      EXPECT_TRUE(ends[rank].succeeded()) << "rank " << rank << ": " << ends[rank].text();
  }
};

TEST_P(Processes, AgreeOnEveryCollective) { expect_success("collectives"); }
TEST_P(Processes, Split) { expect_success("split"); }
TEST_P(Processes, ExchangeMessages) { expect_success("messages"); }
TEST_P(Processes, MayEndWithOpenCommunicators) { expect_success("leave"); }

INSTANTIATE_FOR_EVERY_WORLD(Processes);

TEST(OnHostProcesses, TheSurvivorsOfADeathAreToldWhoDied) {
  const std::vector<ProcessEnd> ends = run_processes("death", 3);
  EXPECT_EQ(ends[0].text(), "exit status 0");
  EXPECT_EQ(ends[1].text(), "exit status 0");
  EXPECT_EQ(ends[2].text(), "killed by signal 9");
}

TEST(OnHostProcesses, AForkedChildStartsAfreshAndItsParentGoesOn) {
  const std::vector<ProcessEnd> ends = run_processes("fork", 2);
  for (const ProcessEnd& end : ends) EXPECT_EQ(end.text(), "exit status 0");
}

TEST(OnHostProcesses, AMismatchIsAnErrorOnEveryRankThatNamesBothShapes) {
  const std::vector<ProcessEnd> ends = run_processes("mismatch", 3);
  for (const ProcessEnd& end : ends) EXPECT_EQ(end.text(), "exit status 0");
}

}  // namespace

const std::vector<NamedScenario>& scenarios() {
  static const std::vector<NamedScenario> kScenarios{
      {"collectives", play_collectives},
      {"split", play_split},
      {"messages", play_messages},
      {"death", play_death},
      {"mismatch", play_mismatch},
      {"leave", play_leave},
      {"fork", play_fork},
  };
  return kScenarios;
}

}  // namespace sabot::conformance
