// What one message costs between two processes: over our network plugin, over plain sockets, and
// over the socket transport inside the vendor's library.
//
//   bench_net_plugin ours PLUGIN|plain|vendor LIBNCCL  latency|stream BYTES
//
// prints nanoseconds for each message, one way: latency sends one message back and forth, stream
// keeps eight in flight in one direction, as NCCL's proxy does. All poll; so do the plain sockets,
// which send nothing but the bytes. The vendor's transport is not exported; it is found in the
// library's data by its name and by what surrounds it (NCCL 2.28 only), and needs a GPU to connect.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "../products/net/nccl_net.hpp"

namespace {

using sabot::products::net::DeviceHandle;
using sabot::products::net::NetV8;

[[noreturn]] void die(const std::string& text) {
  std::fprintf(stderr, "bench_net_plugin: %s\n", text.c_str());
  std::_Exit(1);
}
void check(bool is_good, const char* what) {
  if (!is_good) die(what);
}

constexpr int kInFlight = 8;

// What both processes see.
struct Shared {
  std::array<char, 128> handles[2];
  std::atomic<int> listening;
};
Shared* shared = nullptr;

// A connection in each direction, and messages in flight by slot.
class Carrier {
 public:
  virtual ~Carrier() = default;
  virtual void open(int rank) = 0;
  virtual void send(int slot, char* data, int bytes) = 0;
  virtual void receive(int slot, char* data, int bytes) = 0;
  virtual bool is_sent(int slot) = 0;
  virtual bool is_received(int slot) = 0;
};

// Both directions over tables of functions: ours and the vendor's differ in the arguments.
class TableCarrier : public Carrier {
 public:
  void open(int rank) override {
    void* listening = nullptr;
    listen(shared->handles[rank].data(), &listening);
    ++shared->listening;
    while (shared->listening != 2) {
    }
    while (sending_ == nullptr || receiving_ == nullptr) {
      if (sending_ == nullptr) connect(shared->handles[1 - rank].data(), &sending_);
      if (receiving_ == nullptr) accept(listening, &receiving_);
    }
  }
  bool is_sent(int slot) override { return test(sends_[slot]); }
  bool is_received(int slot) override { return test(receives_[slot]); }

 protected:
  virtual void listen(void* handle, void** listening) = 0;
  virtual void connect(void* handle, void** sending) = 0;
  virtual void accept(void* listening, void** receiving) = 0;
  virtual bool test(void* request) = 0;

  void* sending_ = nullptr;
  void* receiving_ = nullptr;
  void* sends_[kInFlight] = {};
  void* receives_[kInFlight] = {};
};

void ignore_log(sabot::products::net::LogLevel, unsigned long, const char*, int, const char*, ...) {
}

class Ours final : public TableCarrier {
 public:
  explicit Ours(const char* path) {
    void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    check(library != nullptr, "cannot open the plugin");
    net_ = static_cast<const NetV8*>(::dlsym(library, "ncclNetPlugin_v8"));
    check(net_ != nullptr && net_->init(&ignore_log) == ncclSuccess, "no plugin");
  }
  void send(int slot, char* data, int bytes) override {
    do check(net_->isend(sending_, data, bytes, 0, nullptr, &sends_[slot]) == ncclSuccess, "isend");
    while (sends_[slot] == nullptr);
  }
  void receive(int slot, char* data, int bytes) override {
    void* buffer = data;
    int tag = 0;
    void* memory = nullptr;
    check(
        net_->irecv(receiving_, 1, &buffer, &bytes, &tag, &memory, &receives_[slot]) == ncclSuccess,
        "irecv");
  }

 protected:
  void listen(void* handle, void** listening) override {
    check(net_->listen(0, handle, listening) == ncclSuccess, "listen");
  }
  void connect(void* handle, void** sending) override {
    DeviceHandle* offload = nullptr;
    check(net_->connect(0, handle, sending, &offload) == ncclSuccess, "connect");
  }
  void accept(void* listening, void** receiving) override {
    DeviceHandle* offload = nullptr;
    check(net_->accept(listening, receiving, &offload) == ncclSuccess, "accept");
  }
  bool test(void* request) override {
    int is_done = 0, bytes = 0;
    check(net_->test(request, &is_done, &bytes) == ncclSuccess, "test");
    return is_done != 0;
  }

 private:
  const NetV8* net_;
};

// The internal table of NCCL 2.28, by position.
struct VendorNet {
  const char* name;
  ncclResult_t (*init)(void** context, std::uint64_t id, void* config, void* logger,
                       void* profiler);
  ncclResult_t (*devices)(int*);
  void* get_properties;
  ncclResult_t (*listen)(void* context, int device, void* handle, void** listening);
  ncclResult_t (*connect)(void* context, int device, void* handle, void** sending, void** offload);
  ncclResult_t (*accept)(void* listening, void** receiving, void** offload);
  void* register_memory;
  void* register_dma_buffer;
  void* deregister_memory;
  ncclResult_t (*isend)(void* sending, void* data, std::size_t bytes, int tag, void* memory,
                        void* profiled, void** request);
  ncclResult_t (*irecv)(void* receiving, int count, void** data, std::size_t* bytes, int* tags,
                        void** memory, void** profiled, void** request);
  void* iflush;
  ncclResult_t (*test)(void* request, int* is_done, int* bytes);
};

struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  std::string rights;
};

std::vector<Mapping> mappings_of(const std::string& part) {
  std::ifstream file("/proc/self/maps");
  std::vector<Mapping> found;
  Mapping before;
  for (std::string line; std::getline(file, line);) {
    Mapping mapping;
    char dash = 0;
    std::istringstream fields(line);
    fields >> std::hex >> mapping.begin >> dash >> mapping.end >> mapping.rights;
    const bool is_named = line.find(part) != line.npos;
    // The zero-initialised end of a library's data has no name of its own.
    const bool is_tail = !found.empty() && found.back().end == mapping.begin &&
                         line.find('/') == line.npos && mapping.rights[1] == 'w';
    if (is_named || is_tail) found.push_back(mapping);
  }
  return found;
}

const VendorNet* find_vendor_socket() {
  const std::vector<Mapping> mappings = mappings_of("libnccl.so");
  const auto lies_in = [&](std::uintptr_t address, char right, std::size_t place) {
    for (const Mapping& mapping : mappings)
      if (address >= mapping.begin && address < mapping.end && mapping.rights[place] == right)
        return true;
    return false;
  };
  for (const Mapping& mapping : mappings) {
    if (mapping.rights[0] != 'r' || mapping.rights[1] != 'w') continue;
    for (std::uintptr_t at = mapping.begin; at + sizeof(VendorNet) <= mapping.end; at += 8) {
      const auto* words = reinterpret_cast<const std::uintptr_t*>(at);
      if (!lies_in(words[0], 'r', 0) || !lies_in(words[0] + 8, 'r', 0)) continue;
      if (std::memcmp(reinterpret_cast<const char*>(words[0]), "Socket", 7) != 0) continue;
      bool are_functions = words[1] != 0 && words[2] != 0;  // DMA buffers are null
      for (std::size_t i = 1; i < sizeof(VendorNet) / 8; ++i)
        are_functions = are_functions && (words[i] == 0 || lies_in(words[i], 'x', 2));
      if (are_functions) return reinterpret_cast<const VendorNet*>(at);
    }
  }
  return nullptr;
}

class Vendor final : public TableCarrier {
 public:
  explicit Vendor(const char* path) {
    check(::dlopen(path, RTLD_NOW | RTLD_LOCAL) != nullptr, "cannot open libnccl");
    net_ = find_vendor_socket();
    check(net_ != nullptr, "the vendor's socket transport was not found");
    int traffic_class = -1, count = 0;
    check(net_->init(&context_, 1, &traffic_class, reinterpret_cast<void*>(&ignore_log), nullptr) ==
                  ncclSuccess &&
              net_->devices(&count) == ncclSuccess && count > 0,
          "the vendor's transport does not start");
  }
  void send(int slot, char* data, int bytes) override {
    do
      check(net_->isend(sending_, data, static_cast<std::size_t>(bytes), 0, nullptr, nullptr,
                        &sends_[slot]) == ncclSuccess,
            "isend");
    while (sends_[slot] == nullptr);
  }
  void receive(int slot, char* data, int bytes) override {
    void* buffer = data;
    auto size = static_cast<std::size_t>(bytes);
    int tag = 0;
    void* memory = nullptr;
    void* profiled = nullptr;
    check(net_->irecv(receiving_, 1, &buffer, &size, &tag, &memory, &profiled, &receives_[slot]) ==
              ncclSuccess,
          "irecv");
  }

 protected:
  void listen(void* handle, void** listening) override {
    check(net_->listen(context_, 0, handle, listening) == ncclSuccess, "listen");
  }
  void connect(void* handle, void** sending) override {
    void* offload = nullptr;
    check(net_->connect(context_, 0, handle, sending, &offload) == ncclSuccess, "connect");
  }
  void accept(void* listening, void** receiving) override {
    void* offload = nullptr;
    check(net_->accept(listening, receiving, &offload) == ncclSuccess, "accept");
  }
  bool test(void* request) override {
    int is_done = 0, bytes = 0;
    check(net_->test(request, &is_done, &bytes) == ncclSuccess, "test");
    return is_done != 0;
  }

 private:
  const VendorNet* net_;
  void* context_ = nullptr;
};

// One socket for both directions, non-blocking, polled; nothing but the bytes.
class Plain final : public Carrier {
 public:
  void open(int rank) override {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (rank == 0) {
      check(::bind(fd_, raw, sizeof address) == 0 && ::listen(fd_, 1) == 0, "listen");
      ::getsockname(fd_, raw, &length);
      std::memcpy(shared->handles[0].data(), &address, sizeof address);
      ++shared->listening;
      fd_ = ::accept(fd_, nullptr, nullptr);
    } else {
      while (shared->listening != 1) {
      }
      std::memcpy(&address, shared->handles[0].data(), sizeof address);
      check(::connect(fd_, raw, sizeof address) == 0, "connect");
    }
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  void send(int slot, char* data, int bytes) override { sends_[slot] = {data, bytes}; }
  void receive(int slot, char* data, int bytes) override { receives_[slot] = {data, bytes}; }
  bool is_sent(int slot) override { return move(sends_[slot], ::send); }
  bool is_received(int slot) override { return move(receives_[slot], ::recv); }

 private:
  struct Message {
    char* data = nullptr;
    int left = 0;
  };
  template <typename Move>
  bool move(Message& message, Move call) {
    while (message.left > 0) {
      const ssize_t moved = call(fd_, message.data, static_cast<std::size_t>(message.left),
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
      if (moved < 0 && errno == EAGAIN) return false;
      check(moved > 0, "the other process is gone");
      message.data += moved;
      message.left -= static_cast<int>(moved);
    }
    return true;
  }
  int fd_ = -1;
  Message sends_[kInFlight], receives_[kInFlight];
};

double seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void ping_pong(Carrier& carrier, int rank, std::vector<char>& buffer, int rounds) {
  const int bytes = static_cast<int>(buffer.size() / kInFlight);
  for (int i = 0; i < rounds; ++i) {
    for (const bool is_my_turn : {rank == 0, rank != 0}) {
      if (is_my_turn) {
        carrier.send(0, buffer.data(), bytes);
        while (!carrier.is_sent(0)) {
        }
      } else {
        carrier.receive(0, buffer.data(), bytes);
        while (!carrier.is_received(0)) {
        }
      }
    }
  }
}

// Rank 0 sends, rank 1 receives and says at the end that it has all.
void stream(Carrier& carrier, int rank, std::vector<char>& buffer, int rounds) {
  const int bytes = static_cast<int>(buffer.size() / kInFlight);
  for (int i = 0; i < rounds + kInFlight; ++i) {
    const int slot = i % kInFlight;
    char* data = buffer.data() + static_cast<std::size_t>(slot) * static_cast<std::size_t>(bytes);
    if (i >= kInFlight)
      while (rank == 0 ? !carrier.is_sent(slot) : !carrier.is_received(slot)) {
      }
    if (i >= rounds) continue;
    if (rank == 0)
      carrier.send(slot, data, bytes);
    else
      carrier.receive(slot, data, bytes);
  }
  if (rank == 1) {
    carrier.send(0, buffer.data(), 1);
    while (!carrier.is_sent(0)) {
    }
  } else {
    carrier.receive(0, buffer.data(), 1);
    while (!carrier.is_received(0)) {
    }
  }
}

}  // namespace

int main(int count, char** words) {
  check(count >= 4, "ours PLUGIN|plain|vendor LIBNCCL  latency|stream BYTES");
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  const std::string subject = words[1];
  const int next = subject == "plain" ? 2 : 3;
  check(count == next + 2, "wrong number of words");
  const bool is_latency = std::strcmp(words[next], "latency") == 0;
  const auto bytes = static_cast<std::size_t>(std::strtoull(words[next + 1], nullptr, 10));
  shared = new (::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) Shared{};
  const pid_t child = ::fork();
  const int rank = child == 0 ? 1 : 0;
  std::unique_ptr<Carrier> carrier;
  if (subject == "ours") carrier = std::make_unique<Ours>(words[2]);
  if (subject == "vendor") carrier = std::make_unique<Vendor>(words[2]);
  if (subject == "plain") carrier = std::make_unique<Plain>();
  check(carrier != nullptr, "ours, plain or vendor");
  carrier->open(rank);
  std::vector<char> buffer(bytes * kInFlight, 'x');
  const int rounds = bytes <= 65536 ? 20'000 : static_cast<int>(2'000'000'000 / bytes);
  const auto measure = is_latency ? ping_pong : stream;
  measure(*carrier, rank, buffer, rounds / 10);
  const double begin = seconds();
  measure(*carrier, rank, buffer, rounds);
  const double taken = seconds() - begin;
  if (rank == 1) std::_Exit(0);
  ::waitpid(child, nullptr, 0);
  std::printf("%.1f\n", taken * 1e9 / rounds / (is_latency ? 2 : 1));
  return 0;
}
