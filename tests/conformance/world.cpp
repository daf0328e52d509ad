// Creating, keeping and running worlds of threads.
#include "world.hpp"

#include <map>
#include <mutex>
#include <thread>

namespace sabot::conformance {
namespace {

std::map<int, std::unique_ptr<World>> kept_threads;
std::map<int, std::unique_ptr<World>> kept_one_thread;

World* kept(std::map<int, std::unique_ptr<World>>& worlds, int ranks,
            std::unique_ptr<World> (*make)(int)) {
  std::unique_ptr<World>& world = worlds[ranks];
  if (world == nullptr) world = make(ranks);
  return world.get();
}

std::string describe(int rank, int ranks, const std::string& complaint) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": " + complaint;
}

// Runs one function per rank, each in its thread, bound to its device; the results by rank.
std::vector<std::string> in_threads(int ranks, const std::function<std::string(int)>& body) {
  std::vector<std::string> complaints(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      subject().memory->use_device(rank);
      complaints[static_cast<std::size_t>(rank)] = body(rank);
    });
  for (std::thread& thread : threads) thread.join();
  return complaints;
}

bool report(const std::vector<std::string>& complaints) {
  bool fine = true;
  const int ranks = static_cast<int>(complaints.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string& complaint = complaints[static_cast<std::size_t>(rank)];
    if (complaint.empty()) continue;
    fine = false;
    ADD_FAILURE() << describe(rank, ranks, complaint);
  }
  return fine;
}

}  // namespace

Verdict verdict_of(const char* what, ncclResult_t result) {
  if (result == ncclSuccess) return {};
  return out_of_step(std::string(what) + " returned " + text_of(result) + " (" +
                     nccl().GetLastError(nullptr) + ")");
}

World::World(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    ranks_.push_back({rank, ranks, nullptr, nullptr});
    buffers_.push_back(std::make_unique<Buffers>());
  }
}

// On GPUs every rank needs a stream; on host memory the null stream runs at once, which most tests
// want.
void World::create_streams() {
  if (subject().on_host()) return;
  for (Rank& rank : ranks_) {
    subject().memory->use_device(rank.rank);
    rank.stream = subject().memory->create_stream();
  }
}

std::unique_ptr<World> World::of_threads(int ranks, ncclConfig_t* config) {
  std::unique_ptr<World> world(new World(ranks));
  world->create_streams();
  ncclUniqueId id;
  if (nccl().GetUniqueId(&id) != ncclSuccess) {
    ADD_FAILURE() << "ncclGetUniqueId: " << nccl().GetLastError(nullptr);
    return nullptr;
  }
  const bool created = report(in_threads(ranks, [&](int rank) -> std::string {
    ncclComm_t* comm = &world->ranks_[static_cast<std::size_t>(rank)].comm;
    const ncclResult_t result = config == nullptr
                                    ? nccl().CommInitRank(comm, ranks, id, rank)
                                    : nccl().CommInitRankConfig(comm, ranks, id, rank, config);
    if (result == ncclSuccess) return "";
    return "creating the communicator: " + text_of(result) + ", " + nccl().GetLastError(nullptr);
  }));
  return created ? std::move(world) : nullptr;
}

std::unique_ptr<World> World::of_one_thread(int ranks) {
  std::unique_ptr<World> world(new World(ranks));
  world->create_streams();
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  const ncclResult_t result = nccl().CommInitAll(comms.data(), ranks, nullptr);
  if (result != ncclSuccess) {
    ADD_FAILURE() << "ncclCommInitAll(" << ranks << "): " << text_of(result) << ", "
                  << nccl().GetLastError(nullptr);
    return nullptr;
  }
  for (Rank& rank : world->ranks_) rank.comm = comms[static_cast<std::size_t>(rank.rank)];
  return world;
}

World::~World() {
  in_threads(size(), [this](int rank) -> std::string {
    Rank& own = ranks_[static_cast<std::size_t>(rank)];
    buffers_[static_cast<std::size_t>(rank)].reset();
    if (own.comm != nullptr) nccl().CommDestroy(own.comm);
    if (own.stream != nullptr) subject().memory->destroy_stream(own.stream);
    return "";
  });
}

void World::abort() {
  // From one thread: a rank that waits for another inside a call is only freed by this.
  for (Rank& rank : ranks_) {
    if (rank.comm != nullptr) nccl().CommAbort(rank.comm);
    rank.comm = nullptr;
  }
}

void World::forget() {
  for (Rank& rank : ranks_) rank.comm = nullptr;
}

bool World::run(const Body& body) {
  std::once_flag once;
  return report(in_threads(size(), [&](int rank) {
    const Verdict verdict = body(ranks_[static_cast<std::size_t>(rank)], buffers(rank));
    if (verdict.out_of_step) std::call_once(once, [this] { abort(); });
    return verdict.complaint;
  }));
}

World* threads_world(int ranks) {
  return kept(kept_threads, ranks, [](int count) { return World::of_threads(count); });
}

World* one_thread_world(int ranks) {
  return kept(kept_one_thread, ranks, [](int count) { return World::of_one_thread(count); });
}

void run_in_threads(int ranks, const World::Body& body) {
  World* world = threads_world(ranks);
  if (world != nullptr && !world->run(body)) kept_threads.erase(ranks);
}

void drop_worlds() {
  kept_threads.clear();
  kept_one_thread.clear();
}

// A wrong result leaves the ranks in step, so the rest still runs; the first one is reported.
Verdict run_cases(const std::vector<Case>& cases, const Rank& rank, Buffers& buffers) {
  Verdict first;
  for (const Case& test : cases) {
    bool fatal = false;
    const std::string complaint = run_case(test, rank, buffers, &fatal);
    if (fatal) return out_of_step(complaint);
    if (first.complaint.empty()) first.complaint = complaint;
  }
  return first;
}

void run_cases_in_threads(int ranks, const std::vector<Case>& cases) {
  run_in_threads(ranks, [&cases](const Rank& rank, Buffers& buffers) {
    return run_cases(cases, rank, buffers);
  });
}

void run_cases_in_one_thread(int ranks, const std::vector<Case>& cases) {
  World* world = one_thread_world(ranks);
  if (world == nullptr) return;
  Memory& memory = *subject().memory;
  for (const Case& test : cases) {
    std::vector<std::unique_ptr<CaseRun>> runs;
    for (const Rank& rank : world->ranks()) {
      memory.use_device(rank.rank);
      runs.push_back(std::make_unique<CaseRun>(test, rank, world->buffers(rank.rank)));
      runs.back()->prepare();
    }
    ASSERT_RESULT(ncclSuccess, nccl().GroupStart()) << test.text();
    for (const auto& run : runs) ASSERT_RESULT(ncclSuccess, run->call()) << test.text();
    ASSERT_RESULT(ncclSuccess, nccl().GroupEnd()) << test.text();
    for (const Rank& rank : world->ranks()) {
      memory.use_device(rank.rank);
      ASSERT_EQ(memory.synchronize(rank.stream), "") << test.text();
      ASSERT_EQ(runs[static_cast<std::size_t>(rank.rank)]->verify(), "")
          << describe(rank.rank, ranks, test.text());
    }
  }
}

std::vector<int> world_sizes() {
  std::vector<int> sizes;
  for (int size = 1; size <= subject().ranks_max(); ++size) sizes.push_back(size);
  return sizes;
}

std::string ranks_name(const ::testing::TestParamInfo<int>& info) {
  return "With" + std::to_string(info.param) + (info.param == 1 ? "Rank" : "Ranks");
}

}  // namespace sabot::conformance
