// The fixture of the plugin's tests.
#include "two_processes.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sabot/link.h"
#include "sabot/stack.h"

namespace sabot::net_test {

Board* board = nullptr;

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
int own_rank = -1;

void log_line(products::net::LogLevel, unsigned long, const char*, int, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  log_lines().emplace_back(text);
}

std::uint64_t generation() { return board->generation.load(); }

int rule_for(const sabot_link_query_t* query, sabot_link_rule_t* rule) {
  if (query->size < sizeof *query || rule->size < sizeof *rule) return -1;
  if (query->world_rank == 0 || query->world_rank == 1)
    board->asked_peer[query->world_rank] = query->peer_world_rank;
  *rule = {};
  rule->size = sizeof *rule;
  if (query->world_rank != 0) return 0;
  rule->effects = board->effects;
  rule->delay_ns = board->delay_ns;
  rule->rate_bytes_per_s = board->rate;
  std::strcpy(rule->fault, "nic-dies");
  return 0;
}

void* host_function(const char* name) {
  if (std::strcmp(name, "sabot_link_generation") == 0) return reinterpret_cast<void*>(&generation);
  if (std::strcmp(name, "sabot_link_rule_for") == 0) return reinterpret_cast<void*>(&rule_for);
  return nullptr;
}

template <typename Net>
const Net& table(const char* name) {
  void* library = ::dlopen(SABOT_NET_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(::dlerror());
  auto* net = static_cast<const Net*>(::dlsym(library, name));
  if (net == nullptr) fail(std::string("no ") + name);
  if (net->init(&log_line) != ncclSuccess) fail("init failed");
  return *net;
}

void be_rank(int rank, const std::function<void()>& body) {
  own_rank = rank;
  ::alarm(60);
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  body();
  std::_Exit(0);
}

std::string ending(int rank, int status, int dies_by) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == dies_by && dies_by != 0) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  const std::string text = board->text[rank];
  return "rank " + std::to_string(rank) + ": " +
         (text.empty() ? "ended with status " + std::to_string(status) : text) + "\n";
}

}  // namespace

std::vector<std::string>& log_lines() {
  static std::vector<std::string> lines;
  return lines;
}

bool was_logged(const std::string& part) {
  for (const std::string& line : log_lines())
    if (line.find(part) != line.npos) return true;
  return false;
}

const NetV8& plugin_v8() { return table<NetV8>("ncclNetPlugin_v8"); }
const NetV7& plugin_v7() { return table<NetV7>("ncclNetPlugin_v7"); }

void fail(const std::string& text) {
  std::string all = text;
  for (const std::string& line : log_lines()) all += "\n  logged: " + line;
  std::snprintf(board->text[own_rank], sizeof board->text[own_rank], "%s", all.c_str());
  std::_Exit(1);
}

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kSecondNs +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void until(const char* what, const std::function<bool()>& ask) {
  const std::uint64_t deadline = now_ns() + 20 * kSecondNs;
  while (!ask())
    if (now_ns() > deadline) fail(std::string("waited in vain for ") + what);
}

void set_rule(std::uint32_t effects, std::uint64_t delay_ns, std::uint64_t rate) {
  board->effects = effects;
  board->delay_ns = delay_ns;
  board->rate = rate;
  ++board->generation;
}

Connected accept_at(const NetV8& net, int place) {
  Connected ends;
  REQUIRE(net.listen(0, &board->handles[static_cast<std::size_t>(place)], &ends.listening) ==
          ncclSuccess);
  ++board->handle_count;
  until("a connection to accept", [&] {
    products::net::DeviceHandle* offload = nullptr;
    REQUIRE(net.accept(ends.listening, &ends.receiving, &offload) == ncclSuccess);
    return ends.receiving != nullptr;
  });
  return ends;
}

Connected connect_to(const NetV8& net, int place) {
  Connected ends;
  until("a handle", [&] { return board->handle_count > place; });
  until("a connection", [&] {
    products::net::DeviceHandle* offload = nullptr;
    REQUIRE(net.connect(0, &board->handles[static_cast<std::size_t>(place)], &ends.sending,
                        &offload) == ncclSuccess);
    return ends.sending != nullptr;
  });
  return ends;
}

Outcome finish(const NetV8& net, void* request) {
  Outcome outcome;
  until("a request", [&] {
    int is_done = 0;
    outcome.result = net.test(request, &is_done, &outcome.bytes);
    return outcome.result != ncclSuccess || is_done == 1;
  });
  return outcome;
}

void* post_send(const NetV8& net, void* sending, const void* data, int bytes) {
  void* request = nullptr;
  REQUIRE(net.isend(sending, const_cast<void*>(data), bytes, 0, nullptr, &request) == ncclSuccess);
  return request;
}

void* post_receive(const NetV8& net, void* receiving, void* data, int bytes) {
  void* request = nullptr;
  int tag = 0;
  void* memory = nullptr;
  REQUIRE(net.irecv(receiving, 1, &data, &bytes, &tag, &memory, &request) == ncclSuccess);
  return request;
}

std::string run(const Ranks& ranks) {
  void* shared =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return "no memory";
  board = new (shared) Board{};
  board->generation = 1;
  board->has_sabot = true;
  pid_t pids[2];
  for (int rank = 0; rank < 2; ++rank) {
    pids[rank] = ::fork();
    if (pids[rank] == 0) be_rank(rank, rank == 0 ? ranks.rank0 : ranks.rank1);
  }
  std::string text;
  for (int rank = 0; rank < 2; ++rank) {
    int status = 0;
    if (pids[rank] < 0 || ::waitpid(pids[rank], &status, 0) != pids[rank]) text += "no process\n";
    text += ending(rank, status, rank == 0 ? ranks.rank0_dies_by : 0);
  }
  ::munmap(shared, sizeof(Board));
  return text;
}

}  // namespace sabot::net_test

extern "C" __attribute__((visibility("default"))) const sabot_stack_info_t* sabot_stack_v1(void) {
  static sabot_stack_info_t info{sizeof(sabot_stack_info_t), "0.0.0", "test", nullptr};
  info.host_function =
      sabot::net_test::board->has_sabot ? &sabot::net_test::host_function : nullptr;
  return &info;
}
