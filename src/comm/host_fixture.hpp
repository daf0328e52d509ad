// For tests: the host engine's table with NCCL's names, and ranks as threads or forked processes.
//
// A rank answers with a text, so that a test compares whole results and whole messages of all ranks
// at once; pids and addresses in them are replaced.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "comm/host_api.hpp"
#include "world/forked_ranks.hpp"

namespace sabot::comm {

using Texts = std::vector<std::string>;

// host.AllReduce(…) is ncclAllReduce(…) of the engine.
class Host {
 public:
  explicit Host(const Options& options = {}) : api_(host_api(options)) {}

#define SABOT_SLOT(name, ret)                                           \
  ret name(SABOT_PARAMS_##name) const {                                 \
    return api_.table->name(api_.self, nullptr SABOT_TAIL_ARGS_##name); \
  }
  SABOT_API(SABOT_SLOT)
#undef SABOT_SLOT

  std::string text() const { return GetLastError(nullptr); }
  // "ok", or result and text, with pids and addresses replaced.
  std::string say(ncclResult_t result) const {
    if (result == ncclSuccess) return "ok";
    return std::to_string(result) + " " + plain(text());
  }
  static std::string plain(std::string text) {
    static std::mutex mutex;  // libstdc++'s regex fills a table of the locale without a lock
    const std::lock_guard<std::mutex> lock(mutex);
    text = std::regex_replace(text, std::regex("\\(pid [0-9]+\\)"), "(pid N)");
    text = std::regex_replace(text, std::regex("process [0-9]+"), "process N");
    text = std::regex_replace(text, std::regex("0x[0-9a-f]+"), "0xP");
    return std::regex_replace(text, std::regex("127\\.0\\.0\\.1:[0-9]+"), "127.0.0.1:P");
  }

  ncclUniqueId id() const {
    ncclUniqueId made{};
    EXPECT_EQ(say(GetUniqueId(&made)), "ok");
    return made;
  }

 private:
  abi::Api api_;
};

// Runs one function per rank in a thread each; their answers in order.
inline Texts in_threads(int ranks, const std::function<std::string(int)>& body) {
  Texts answers(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { answers[static_cast<std::size_t>(rank)] = body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return answers;
}

// All ranks of a communicator in this process, made by ncclCommInitAll; destroyed at the end.
class Clique {
 public:
  Clique(const Host& host, int ranks) : host_(host), comms_(static_cast<std::size_t>(ranks)) {
    EXPECT_EQ(host.say(host.CommInitAll(comms_.data(), ranks, nullptr)), "ok");
  }
  ~Clique() {
    for (const ncclComm_t comm : comms_) host_.CommDestroy(comm);
  }
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;
  ncclComm_t operator[](int rank) const { return comms_[static_cast<std::size_t>(rank)]; }

 private:
  const Host& host_;
  std::vector<ncclComm_t> comms_;
};

// One rank of a communicator that meets at an id; joined is "ok" or why not.
struct Joined {
  ncclComm_t comm = nullptr;
  std::string said;
};
inline Joined join_at(const Host& host, const ncclUniqueId& id, int rank, int ranks) {
  Joined joined;
  joined.said = host.say(host.CommInitRank(&joined.comm, ranks, id, rank));
  return joined;
}

template <typename T>
std::string list(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    std::string one = std::to_string(static_cast<long long>(value));
    text += (text.empty() ? "" : " ") + one;
  }
  return text;
}

inline Texts same(int ranks, const std::string& text) {
  return Texts(static_cast<std::size_t>(ranks), text);
}

}  // namespace sabot::comm
