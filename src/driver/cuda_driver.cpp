// Our declarations of the driver's functions, and one call of each.
//
// Numbers that the driver's header gives names to stand here once, with those names. CUresult is an
// int in the C ABI, as are its enums; the handles are pointers.
#include "driver/cuda_driver.hpp"

#include <dlfcn.h>

#include <string>

namespace sabot::driver {
namespace {

constexpr int kSuccess = 0;                  // CUDA_SUCCESS
constexpr int kAlreadyRegistered = 712;      // CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
constexpr int kNotSupported = 801;           // CUDA_ERROR_NOT_SUPPORTED
constexpr int kCaptureFirst = 900;           // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
constexpr int kCaptureLast = 908;            // CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
constexpr std::uint64_t kLegacyStream = 1;   // CU_GET_PROC_ADDRESS_LEGACY_STREAM
constexpr unsigned kPortableMapped = 1 | 2;  // CU_MEMHOSTREGISTER_PORTABLE | _DEVICEMAP
constexpr unsigned kNonBlocking = 1;         // CU_STREAM_NON_BLOCKING
constexpr unsigned kWaitGreaterEqual = 0;    // CU_STREAM_WAIT_VALUE_GEQ
constexpr unsigned kWriteDefault = 0;        // CU_STREAM_WRITE_VALUE_DEFAULT
constexpr unsigned kNoDestructorSync = 1;    // CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
constexpr unsigned kMoveReference = 1;       // CU_GRAPH_USER_OBJECT_MOVE
void* const kExtraPointer = reinterpret_cast<void*>(1);  // CU_LAUNCH_PARAM_BUFFER_POINTER
void* const kExtraSize = reinterpret_cast<void*>(2);     // CU_LAUNCH_PARAM_BUFFER_SIZE

using GetProcAddress = int (*)(const char* symbol, void** function, int version,
                               std::uint64_t flags);

// Null where this driver has no such function.
template <typename Function>
void resolve(GetProcAddress get, const char* name, int version, Function& function) {
  void* found = nullptr;
  const bool is_found = get(name, &found, version, kLegacyStream) == kSuccess;
  function = is_found ? reinterpret_cast<Function>(found) : nullptr;
}

// Whom to tell that a graph is gone.
struct Ending {
  void (*end)(void*);
  void* user;
};

void finish(void* object) {
  const std::unique_ptr<Ending> ending(static_cast<Ending*>(object));
  if (ending->end != nullptr) ending->end(ending->user);
}

}  // namespace

Result<CudaFunctions> cuda_functions(const char* library) {
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Error(Code::kNotFound, std::string("no CUDA driver (") + (why ? why : library) + ")");
  }
  const auto get = reinterpret_cast<GetProcAddress>(::dlsym(handle, "cuGetProcAddress"));
  if (get == nullptr)
    return Error(Code::kCuda, std::string(library) +
                                  " is no CUDA driver, or one before CUDA 11.3: cuGetProcAddress "
                                  "is missing");
  CudaFunctions functions;
  const char* missing = nullptr;
#define SABOT_CUDA_OPTIONAL(name, version, parameters) resolve(get, #name, version, functions.name);
#define SABOT_CUDA_FUNCTION(name, version, parameters) \
  resolve(get, #name, version, functions.name);        \
  if (functions.name == nullptr && missing == nullptr) missing = #name;
#include "driver/functions.def"
#undef SABOT_CUDA_FUNCTION
#undef SABOT_CUDA_OPTIONAL
  if (missing != nullptr)
    return Error(Code::kCuda, std::string(library) + " lacks " + missing +
                                  "; a driver of CUDA 11.3 or later has it");
  return functions;
}

Result<std::unique_ptr<Driver>> CudaDriver::open(const char* library) {
  const CudaFunctions functions = SABOT_TRY(cuda_functions(library));
  auto driver = std::make_unique<CudaDriver>(functions);
  SABOT_TRY(driver->check(functions.cuInit(0), "cuInit"));
  return std::unique_ptr<Driver>(std::move(driver));
}

Status CudaDriver::check(int result, const char* function) const {
  if (result == kSuccess) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  cuda_.cuGetErrorName(result, &name);
  cuda_.cuGetErrorString(result, &text);
  std::string message = std::string(function) + " returned ";
  message += name ? name : "error " + std::to_string(result);
  if (text) message += std::string(" (") + text + ")";
  Code code = Code::kCuda;
  if (result == kNotSupported) code = Code::kUnsupported;
  if (result >= kCaptureFirst && result <= kCaptureLast) code = Code::kInvalidUsage;
  return Error(code, std::move(message));
}

Result<Context> CudaDriver::primary_context(int device) {
  unsigned flags = 0;
  int is_active = 0;
  SABOT_TRY(check(cuda_.cuDevicePrimaryCtxGetState(device, &flags, &is_active),
                  "cuDevicePrimaryCtxGetState"));
  if (is_active == 0)
    return Error(Code::kInvalidUsage,
                 "the primary context of device " + std::to_string(device) + " is not active");
  const auto index = static_cast<std::size_t>(device);
  if (index < kDevicesMax) {
    if (Context held = retained_[index].load()) return held;
  }
  Context context = nullptr;
  SABOT_TRY(check(cuda_.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain"));
  if (index < kDevicesMax) retained_[index].store(context);
  return context;
}

Result<Context> CudaDriver::context_of(Stream stream) {
  Context context = nullptr;
  SABOT_TRY(check(cuda_.cuStreamGetCtx(stream, &context), "cuStreamGetCtx"));
  return context;
}

Result<Context> CudaDriver::current_context() {
  Context context = nullptr;
  SABOT_TRY(check(cuda_.cuCtxGetCurrent(&context), "cuCtxGetCurrent"));
  return context;
}

Status CudaDriver::push(Context context) {
  return check(cuda_.cuCtxPushCurrent(context), "cuCtxPushCurrent");
}

Status CudaDriver::pop() {
  Context context = nullptr;
  return check(cuda_.cuCtxPopCurrent(&context), "cuCtxPopCurrent");
}

Result<CaptureMode> CudaDriver::exchange_capture_mode(CaptureMode mode) {
  int value = static_cast<int>(mode);
  SABOT_TRY(
      check(cuda_.cuThreadExchangeStreamCaptureMode(&value), "cuThreadExchangeStreamCaptureMode"));
  return static_cast<CaptureMode>(value);
}

Result<Capture> CudaDriver::capture_of(Stream stream) {
  int status = 0;
  Graph graph = nullptr;
  SABOT_TRY(check(cuda_.cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr),
                  "cuStreamGetCaptureInfo"));
  const auto state = static_cast<Capture::State>(status);
  return Capture{state, state == Capture::State::kActive ? graph : nullptr};
}

// The driver calls the destructor of a user object also where the graph did not take it, hence the
// indirection: then there is nobody to be told.
Status CudaDriver::at_end_of(Graph graph, void (*end)(void*), void* user) {
  auto ending = std::make_unique<Ending>(Ending{end, user});
  void* object = nullptr;
  SABOT_TRY(check(cuda_.cuUserObjectCreate(&object, ending.get(), finish, 1, kNoDestructorSync),
                  "cuUserObjectCreate"));
  Ending* owned = ending.release();
  Status kept = check(cuda_.cuGraphRetainUserObject(graph, object, 1, kMoveReference),
                      "cuGraphRetainUserObject");
  if (!kept) {
    owned->end = nullptr;
    check(cuda_.cuUserObjectRelease(object, 1), "cuUserObjectRelease").ignore();
  }
  return kept;
}

Result<Address> CudaDriver::map_host(void* pages, std::size_t bytes) {
  const int result = cuda_.cuMemHostRegister(pages, bytes, kPortableMapped);
  if (result != kAlreadyRegistered) SABOT_TRY(check(result, "cuMemHostRegister"));
  Address address = 0;
  SABOT_TRY(
      check(cuda_.cuMemHostGetDevicePointer(&address, pages, 0), "cuMemHostGetDevicePointer"));
  return address;
}

Status CudaDriver::unmap_host(void* pages) {
  return check(cuda_.cuMemHostUnregister(pages), "cuMemHostUnregister");
}

Status CudaDriver::wait_value(Stream stream, Address word, std::uint32_t value) {
  if (cuda_.cuStreamWaitValue32 == nullptr)
    return Error(Code::kUnsupported, "this driver has no cuStreamWaitValue32 of CUDA 11.7");
  return check(cuda_.cuStreamWaitValue32(stream, word, value, kWaitGreaterEqual),
               "cuStreamWaitValue32");
}

Status CudaDriver::write_value(Stream stream, Address word, std::uint32_t value) {
  if (cuda_.cuStreamWriteValue32 == nullptr)
    return Error(Code::kUnsupported, "this driver has no cuStreamWriteValue32 of CUDA 11.7");
  return check(cuda_.cuStreamWriteValue32(stream, word, value, kWriteDefault),
               "cuStreamWriteValue32");
}

Result<Module> CudaDriver::load(const char* ptx) {
  Module module = nullptr;
  SABOT_TRY(check(cuda_.cuModuleLoadData(&module, ptx), "cuModuleLoadData"));
  return module;
}

Result<Kernel> CudaDriver::kernel(Module module, const char* name) {
  Kernel kernel = nullptr;
  SABOT_TRY(check(cuda_.cuModuleGetFunction(&kernel, module, name), "cuModuleGetFunction"));
  return kernel;
}

Status CudaDriver::launch(Kernel kernel, unsigned threads, Stream stream,
                          std::span<const std::byte> parameters) {
  std::size_t bytes = parameters.size();
  void* extra[] = {kExtraPointer, const_cast<std::byte*>(parameters.data()), kExtraSize, &bytes,
                   nullptr};
  return check(cuda_.cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, stream, nullptr, extra),
               "cuLaunchKernel");
}

Result<Stream> CudaDriver::create_stream() {
  Stream stream = nullptr;
  SABOT_TRY(check(cuda_.cuStreamCreate(&stream, kNonBlocking), "cuStreamCreate"));
  return stream;
}

Status CudaDriver::destroy_stream(Stream stream) {
  return check(cuda_.cuStreamDestroy(stream), "cuStreamDestroy");
}

}  // namespace sabot::driver
