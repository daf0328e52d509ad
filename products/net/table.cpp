// NCCL's questions, passed on to the network of this process, and its errors in NCCL's codes.
//
// NCCL's proxy uses one connection from one thread at a time, but many connections from many
// threads. Errors are said once, through NCCL's logger, which also makes the text what
// ncclGetLastError returns. No exception leaves a function.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>

#include "abi/result_code.hpp"
#include "nccl_net.hpp"
#include "process.hpp"

namespace sabot::products::net {
namespace {

using link::net::Flow;
using link::net::Listener;
using link::net::Receiver;
using link::net::Request;
using link::net::Sender;
using link::net::Transport;

constexpr int kCommsMax = 65536;

std::atomic<Logger> logger{nullptr};

void say(LogLevel level, const std::string& text) {
  if (const Logger log = logger.load())
    log(level, kLogInitAndNet, "libnccl-net-sabot.so", 0, "NET/Sabot : %s", text.c_str());
}

ncclResult_t refused(const Error& error) {
  say(kLogWarn, error.message());
  return abi::to_result(error.code());
}

ncclResult_t result_of(const Status& status) {
  return status.ok() ? ncclSuccess : refused(status.error());
}

// Runs body, which returns a Status: no exception, no lost errno.
template <typename Body>
ncclResult_t guarded(Body body) {
  const int kept = errno;
  ncclResult_t result = ncclInternalError;
  try {
    result = result_of(body());
  } catch (const std::exception& problem) {
    say(kLogWarn, std::string("an exception inside the plugin: ") + problem.what());
  }
  errno = kept;
  return result;
}

Status check(bool condition, const char* what) {
  if (condition) return {};
  return Error(Code::kInvalidArgument, what);
}

Result<Transport*> transport() {
  const auto& opened = process_transport();
  if (!opened.ok()) return opened.error();
  return opened->get();
}

ncclResult_t init(Logger given) {
  logger.store(given);
  return guarded([]() -> Status {
    const Transport* network = SABOT_TRY(transport());
    std::string names;
    for (const link::net::Device& device : network->devices())
      names += " " + device.name + ":" + link::net::to_text(device.address);
    say(kLogInfo, "using" + names);
    return {};
  });
}

ncclResult_t devices(int* count) {
  return guarded([&]() -> Status {
    SABOT_TRY(check(count != nullptr, "devices: nowhere to put the count"));
    *count = static_cast<int>(SABOT_TRY(transport())->devices().size());
    return {};
  });
}

template <typename Properties>
ncclResult_t get_properties(int number, Properties* properties) {
  return guarded([&]() -> Status {
    SABOT_TRY(check(properties != nullptr, "getProperties: nowhere to put them"));
    const Transport* network = SABOT_TRY(transport());
    const link::net::Device* device = SABOT_TRY(network->device(number));
    *properties = {};
    properties->name = const_cast<char*>(device->name.c_str());
    if (!device->pci_path.empty())
      properties->pci_path = const_cast<char*>(device->pci_path.c_str());
    properties->guid = static_cast<std::uint64_t>(number);
    properties->pointer_support = kHostPointers;
    properties->speed_mbps = device->speed_mbps;
    properties->comms_max = kCommsMax;
    properties->receives_max = 1;
    properties->device_type = kNoOffload;
    return {};
  });
}

ncclResult_t listen(int device, void* handle, void** listening) {
  return guarded([&]() -> Status {
    SABOT_TRY(check(handle != nullptr && listening != nullptr, "listen: nowhere to put a handle"));
    Transport* network = SABOT_TRY(transport());
    std::unique_ptr<Listener> listener = SABOT_TRY(network->listen(device));
    link::net::write_handle(listener->handle(),
                            std::span<std::byte, link::net::kHandleBytes>(
                                static_cast<std::byte*>(handle), link::net::kHandleBytes));
    *listening = listener.release();
    return {};
  });
}

ncclResult_t connect(int device, void* handle, void** sending, DeviceHandle**) {
  return guarded([&]() -> Status {
    SABOT_TRY(check(handle != nullptr && sending != nullptr, "connect: no handle"));
    *sending = nullptr;
    Transport* network = SABOT_TRY(transport());
    SABOT_TRY(network->device(device));
    const std::span<const std::byte, link::net::kHandleBytes> bytes(
        static_cast<const std::byte*>(handle), link::net::kHandleBytes);
    *sending = SABOT_TRY(network->dialer().connect(handle, bytes)).release();
    return {};
  });
}

ncclResult_t accept(void* listening, void** receiving, DeviceHandle**) {
  return guarded([&]() -> Status {
    SABOT_TRY(check(listening != nullptr && receiving != nullptr, "accept: no listener"));
    *receiving = nullptr;
    *receiving = SABOT_TRY(static_cast<Listener*>(listening)->accept()).release();
    return {};
  });
}

template <typename Length>
ncclResult_t register_memory(void*, void*, Length, int type, void** memory) {
  return guarded([&]() -> Status {
    if (memory != nullptr) *memory = nullptr;
    return check(type == kHostPointers, "only host memory can be registered, as ptrSupport says");
  });
}

ncclResult_t register_dma_buffer(void*, void*, std::size_t, int, std::uint64_t, int,
                                 void** memory) {
  return guarded([&]() -> Status {
    if (memory != nullptr) *memory = nullptr;
    return check(false, "DMA buffers cannot be registered, as ptrSupport says");
  });
}

ncclResult_t deregister_memory(void*, void*) { return ncclSuccess; }

ncclResult_t isend(void* sending, void* data, int bytes, int, void*, void** request) {
  return guarded([&]() -> Status {
    const bool is_sound = sending != nullptr && request != nullptr && bytes >= 0;
    SABOT_TRY(check(is_sound, "isend: no connection, or a negative length"));
    *request = static_cast<Sender*>(sending)->post(data, static_cast<std::uint64_t>(bytes));
    return {};
  });
}

ncclResult_t irecv(void* receiving, int count, void** data, int* bytes, int*, void**,
                   void** request) {
  return guarded([&]() -> Status {
    const bool is_sound = receiving != nullptr && request != nullptr && data != nullptr &&
                          bytes != nullptr && count == 1 && bytes[0] >= 0;
    SABOT_TRY(check(is_sound, "irecv: takes one buffer at a time, as maxRecvs says"));
    *request =
        static_cast<Receiver*>(receiving)->post(data[0], static_cast<std::uint64_t>(bytes[0]));
    return {};
  });
}

// Host memory needs no flush: done at once.
ncclResult_t iflush(void*, int, void**, int*, void**, void** request) {
  if (request != nullptr) *request = nullptr;
  return ncclSuccess;
}

ncclResult_t test(void* request, int* is_done, int* bytes) {
  return guarded([&]() -> Status {
    SABOT_TRY(check(request != nullptr && is_done != nullptr, "test: no request"));
    *is_done = 0;
    auto& asked = *static_cast<Request*>(request);
    SABOT_TRY(check(asked.flow != nullptr, "test: not a request"));
    std::uint64_t moved = 0;
    if (!SABOT_TRY(asked.flow->test(asked, &moved))) return {};
    *is_done = 1;
    if (bytes != nullptr) *bytes = static_cast<int>(moved);
    return {};
  });
}

template <typename T>
ncclResult_t close(void* object) {
  return guarded([&]() -> Status {
    delete static_cast<T*>(object);
    return {};
  });
}

template <typename Properties, typename Length>
constexpr Net<Properties, Length> make_table() {
  return {.name = kNetName,
          .init = init,
          .devices = devices,
          .get_properties = get_properties<Properties>,
          .listen = listen,
          .connect = connect,
          .accept = accept,
          .register_memory = register_memory<Length>,
          .register_dma_buffer = register_dma_buffer,
          .deregister_memory = deregister_memory,
          .isend = isend,
          .irecv = irecv,
          .iflush = iflush,
          .test = test,
          .close_send = close<Sender>,
          .close_receive = close<Receiver>,
          .close_listen = close<Listener>,
          .device_memory = nullptr,
          .receive_consumed = nullptr};
}

}  // namespace

}  // namespace sabot::products::net

// What NCCL looks up by name.
#define SABOT_PUBLIC __attribute__((visibility("default")))
extern "C" {
SABOT_PUBLIC extern const sabot::products::net::NetV8 ncclNetPlugin_v8;
SABOT_PUBLIC extern const sabot::products::net::NetV7 ncclNetPlugin_v7;
constinit const sabot::products::net::NetV8 ncclNetPlugin_v8 =
    sabot::products::net::make_table<sabot::products::net::PropertiesV8, std::size_t>();
constinit const sabot::products::net::NetV7 ncclNetPlugin_v7 =
    sabot::products::net::make_table<sabot::products::net::PropertiesV7, int>();
}
