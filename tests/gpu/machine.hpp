// What the checks of stream effects need of CUDA beside the product's own functions: memory,
// streams, graphs and waiting, as an application would use them.
//
// Resolved from the driver at run time like the product's. A failure of these is a failure of the
// machine, not of what is checked: the program ends with a text.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

#include "driver/driver.hpp"

namespace sabot::gpu_test {

using driver::Address;
using driver::Context;
using driver::Graph;
using driver::Stream;

[[noreturn]] inline void end(const char* what, int code) {
  std::fprintf(stderr, "%s failed with CUDA error %d\n", what, code);
  std::exit(2);
}

class Machine {
 public:
  explicit Machine(int device) {
    call<int(unsigned)>("cuInit", 0U);
    call<int(Context*, int)>("cuDevicePrimaryCtxRetain", &context_, device);
    make_current();
  }

  Context context() const { return context_; }
  void make_current() { call<int(Context)>("cuCtxSetCurrent", context_); }
  void make_none_current() { call<int(Context)>("cuCtxSetCurrent", Context{nullptr}); }
  Context current() {
    Context found = nullptr;
    call<int(Context*)>("cuCtxGetCurrent", &found);
    return found;
  }

  Stream stream(unsigned flags = 1) {  // CU_STREAM_NON_BLOCKING
    Stream made = nullptr;
    call<int(Stream*, unsigned)>("cuStreamCreate", &made, flags);
    return made;
  }
  void destroy(Stream stream) { call<int(Stream)>("cuStreamDestroy_v2", stream); }
  void wait_for(Stream stream) { call<int(Stream)>("cuStreamSynchronize", stream); }
  bool is_idle(Stream stream) {
    const int code = symbol<int(Stream)>("cuStreamQuery")(stream);
    if (code != 0 && code != 600) end("cuStreamQuery", code);  // CUDA_ERROR_NOT_READY
    return code == 0;
  }

  Address memory(std::size_t bytes) {
    Address made = 0;
    call<int(Address*, std::size_t)>("cuMemAlloc_v2", &made, bytes);
    return made;
  }
  void free(Address memory) { call<int(Address)>("cuMemFree_v2", memory); }
  std::size_t free_bytes() {
    std::size_t free = 0;
    std::size_t all = 0;
    call<int(std::size_t*, std::size_t*)>("cuMemGetInfo_v2", &free, &all);
    return free;
  }
  void write(Address to, const void* from, std::size_t bytes) {
    call<int(Address, const void*, std::size_t)>("cuMemcpyHtoD_v2", to, from, bytes);
  }
  void read(void* to, Address from, std::size_t bytes) {
    call<int(void*, Address, std::size_t)>("cuMemcpyDtoH_v2", to, from, bytes);
  }
  void put_copy(Stream stream, Address to, Address from, std::size_t bytes) {
    call<int(Address, Address, std::size_t, Stream)>("cuMemcpyAsync", to, from, bytes, stream);
  }
  // The application's work: writes a word that the host can look at.
  volatile std::uint32_t* word() {
    void* made = nullptr;
    call<int(void**, std::size_t, unsigned)>("cuMemHostAlloc", &made, std::size_t{64}, 3U);
    *static_cast<std::uint32_t*>(made) = 0;
    return static_cast<volatile std::uint32_t*>(made);
  }
  void put_write(Stream stream, volatile std::uint32_t* word, std::uint32_t value) {
    call<int(Address, unsigned, std::size_t, Stream)>(
        "cuMemsetD32Async", reinterpret_cast<Address>(word), value, std::size_t{1}, stream);
  }

  void begin_capture(Stream stream, int mode = 0) {  // CU_STREAM_CAPTURE_MODE_GLOBAL
    call<int(Stream, int)>("cuStreamBeginCapture_v2", stream, mode);
  }
  Graph end_capture(Stream stream) {
    Graph made = nullptr;
    call<int(Stream, Graph*)>("cuStreamEndCapture", stream, &made);
    return made;
  }
  Graph instantiate(Graph graph) {
    Graph made = nullptr;
    call<int(Graph*, Graph, unsigned long long)>("cuGraphInstantiateWithFlags", &made, graph, 0ULL);
    return made;
  }
  void launch(Graph executable, Stream stream) {
    call<int(Graph, Stream)>("cuGraphLaunch", executable, stream);
  }
  void destroy(Graph graph, Graph executable) {
    call<int(Graph)>("cuGraphExecDestroy", executable);
    call<int(Graph)>("cuGraphDestroy", graph);
  }
  int capture_mode() {  // of this thread
    int mode = 2;
    call<int(int*)>("cuThreadExchangeStreamCaptureMode", &mode);
    int back = mode;
    call<int(int*)>("cuThreadExchangeStreamCaptureMode", &back);
    return mode;
  }

 private:
  template <typename Function>
  Function* symbol(const char* name) {
    static void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
    void* found = library == nullptr ? nullptr : ::dlsym(library, name);
    if (found == nullptr) end(name, -1);
    return reinterpret_cast<Function*>(found);
  }
  template <typename Function, typename... Arguments>
  void call(const char* name, Arguments... arguments) {
    if (const int code = symbol<Function>(name)(arguments...); code != 0) end(name, code);
  }

  Context context_ = nullptr;
};

}  // namespace sabot::gpu_test
