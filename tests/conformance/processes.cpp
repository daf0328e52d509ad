// Starting and awaiting the processes of a world, and being one of them.
#include "processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>

namespace sabot::conformance {
namespace {

constexpr auto kPollEvery = std::chrono::milliseconds(2);

struct Pipe {
  int read = -1;
  int write = -1;
};

std::vector<std::string> command_of(const ProcessRank& process) {
  const Options& options = subject().options;
  std::vector<std::string> words{options.program,
                                 "--library",
                                 options.library,
                                 "--memory",
                                 options.where == Where::kHost ? "host" : "gpu",
                                 "--scenario",
                                 process.scenario,
                                 "--rank",
                                 std::to_string(process.rank),
                                 "--ranks",
                                 std::to_string(process.ranks),
                                 "--id-fd",
                                 std::to_string(process.id_fd)};
  if (options.global) words.push_back("--global");
  return words;
}

pid_t start(const ProcessRank& process) {
  // Everything that allocates happens before the fork: other threads may hold the allocator's lock.
  std::vector<std::string> words = command_of(process);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  fcntl(process.id_fd, F_SETFD, 0);
  execv("/proc/self/exe", arguments.data());
  _exit(127);
}

// Polls, because a wait with a deadline for one of several children does not exist.
ProcessEnd await(pid_t child, std::chrono::steady_clock::time_point deadline) {
  ProcessEnd end;
  while (waitpid(child, &end.status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &end.status, 0);
      end.timed_out = true;
      break;
    }
    poll(nullptr, 0, static_cast<int>(kPollEvery.count()));
  }
  return end;
}

bool exchange_id(const ProcessRank& process, ncclUniqueId* id) {
  if (process.rank != 0)
    return read(process.id_fd, id, sizeof *id) == static_cast<ssize_t>(sizeof *id);
  if (nccl().GetUniqueId(id) != ncclSuccess) return false;
  for (int other = 1; other < process.ranks; ++other)
    if (write(process.id_fd, id, sizeof *id) != static_cast<ssize_t>(sizeof *id)) return false;
  return true;
}

int complain(const ProcessRank& process, const std::string& complaint) {
  std::fprintf(stderr, "rank %d of %d (process %d), scenario %s: %s\n", process.rank, process.ranks,
               getpid(), process.scenario.c_str(), complaint.c_str());
  return 1;
}

}  // namespace

std::string ProcessEnd::text() const {
  if (timed_out) return "did not end and was killed";
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

std::vector<ProcessEnd> run_processes(const char* scenario, int ranks) {
  // A pipe keeps the pieces that are written at once together, so one serves all readers.
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0) << std::strerror(errno);
  const Pipe pipe{ends[0], ends[1]};
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank)
    children.push_back(start({scenario, rank, ranks, rank == 0 ? pipe.write : pipe.read}));
  close(pipe.read);
  close(pipe.write);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(subject().options.deadline_s * 3 / 4);
  std::vector<ProcessEnd> result;
  for (const pid_t child : children) result.push_back(await(child, deadline));
  return result;
}

int play(const ProcessRank& process) {
  for (const NamedScenario& scenario : scenarios()) {
    if (process.scenario != scenario.name) continue;
    subject().memory->use_device(process.rank);
    Rank rank{process.rank, process.ranks, nullptr, nullptr};
    if (!subject().on_host()) rank.stream = subject().memory->create_stream();
    ncclUniqueId id;
    if (!exchange_id(process, &id)) return complain(process, "the unique id did not come");
    if (nccl().CommInitRank(&rank.comm, rank.ranks, id, rank.rank) != ncclSuccess)
      return complain(process, std::string("ncclCommInitRank: ") + nccl().GetLastError(nullptr));
    Verdict verdict;
    {
      Buffers buffers;
      verdict = scenario.play(rank, buffers);
    }
    if (verdict.out_of_step)
      nccl().CommAbort(rank.comm);
    else
      nccl().CommDestroy(rank.comm);
    return verdict.complaint.empty() ? 0 : complain(process, verdict.complaint);
  }
  return complain(process, "no such scenario");
}

}  // namespace sabot::conformance
