// NCCL's net plugin interface of versions 7 and 8, as far as a plugin fills it in.
//
// Declared here by its layout, because NCCL does not install a header for it: NCCL 2.19 looks for
// ncclNetPlugin_v7, 2.20 and later for newer ones and, last of those that we have, for
// ncclNetPlugin_v8, which they adapt to their own. The two differ in the properties and in the type
// of a length. What each function has to do stands in table.cpp.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace sabot::products::net {

enum LogLevel : int { kLogWarn = 2, kLogInfo = 3 };
inline constexpr unsigned long kLogInitAndNet = 0x1 | 0x10;
using Logger = void (*)(LogLevel level, unsigned long subsystems, const char* file, int line,
                        const char* format, ...);

inline constexpr int kHostPointers = 1;
inline constexpr int kNoOffload = 0;

struct PropertiesV8 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int speed_mbps;
  int port;
  float latency;
  int comms_max;
  int receives_max;
  int device_type;
  int device_version;
};
static_assert(sizeof(PropertiesV8) == 64 && offsetof(PropertiesV8, speed_mbps) == 32);

struct PropertiesV7 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int speed_mbps;
  int port;
  float latency;
  int comms_max;
  int receives_max;
  int device_type;
  int device_version;
};
static_assert(sizeof(PropertiesV7) == 56 && offsetof(PropertiesV7, speed_mbps) == 28);

struct DeviceHandle;  // of network offload, which we do not do

template <typename Properties, typename Length>
struct Net {
  const char* name;
  ncclResult_t (*init)(Logger logger);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*get_properties)(int device, Properties* properties);
  ncclResult_t (*listen)(int device, void* handle, void** listening);
  ncclResult_t (*connect)(int device, void* handle, void** sending, DeviceHandle** offload);
  ncclResult_t (*accept)(void* listening, void** receiving, DeviceHandle** offload);
  ncclResult_t (*register_memory)(void* flow, void* data, Length bytes, int type, void** memory);
  ncclResult_t (*register_dma_buffer)(void* flow, void* data, std::size_t bytes, int type,
                                      std::uint64_t offset, int fd, void** memory);
  ncclResult_t (*deregister_memory)(void* flow, void* memory);
  ncclResult_t (*isend)(void* sending, void* data, int bytes, int tag, void* memory,
                        void** request);
  ncclResult_t (*irecv)(void* receiving, int count, void** data, int* bytes, int* tags,
                        void** memory, void** request);
  ncclResult_t (*iflush)(void* receiving, int count, void** data, int* bytes, void** memory,
                         void** request);
  ncclResult_t (*test)(void* request, int* is_done, int* bytes);
  ncclResult_t (*close_send)(void* sending);
  ncclResult_t (*close_receive)(void* receiving);
  ncclResult_t (*close_listen)(void* listening);
  // Null where nothing is offloaded: NCCL calls the second one for every message if it is there.
  ncclResult_t (*device_memory)(void* flow, void* memory, void** device_memory);
  ncclResult_t (*receive_consumed)(void* receiving, int count, void* request);
};
using NetV8 = Net<PropertiesV8, std::size_t>;
using NetV7 = Net<PropertiesV7, int>;
static_assert(sizeof(NetV8) == 19 * sizeof(void*) && sizeof(NetV7) == sizeof(NetV8));

// For NCCL_NET; compared without regard to case.
inline constexpr char kNetName[] = "Sabot";

}  // namespace sabot::products::net
