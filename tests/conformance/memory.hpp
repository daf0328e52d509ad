// The memory that a subject works on, and the streams that order its work.
//
// Three forms behind one interface: host memory, GPU memory through the CUDA driver opened at run
// time (no CUDA header is needed), and none. All calls belong to the thread that called use_device
// last.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "abi/api_list.hpp"
#include "base/result.hpp"

namespace sabot::conformance {

using Stream = cudaStream_t;

class Memory {
 public:
  virtual ~Memory() = default;
  // How many ranks can have a device of their own.
  virtual int device_count() const = 0;
  // Binds this thread to the device of a rank; needed once per thread before anything else.
  virtual void use_device(int device) = 0;

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* pointer) = 0;
  // Both return when the bytes are there, ordered after the work of the stream.
  virtual void write(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  virtual void read(void* to, const void* from, std::size_t bytes, Stream stream) = 0;

  // Null where the subject has no streams of its own but the default one.
  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) = 0;
  // "" once all work of the stream is done, else what went wrong.
  virtual std::string synchronize(Stream stream) = 0;

  // Graphs: capture begins, the caller enqueues, the capture ends as something that can be launched
  // often. Only where has_graphs().
  virtual bool has_graphs() const { return false; }
  virtual std::string begin_capture(Stream) { return "no graphs"; }
  virtual void* end_capture(Stream) { return nullptr; }
  virtual std::string launch(void* /*graph*/, Stream) { return "no graphs"; }
  virtual void destroy_graph(void* /*graph*/) {}
};

// library: the dlopen handle of the subject, for the streams it offers on host memory.
std::unique_ptr<Memory> make_host_memory(void* library);
Result<std::unique_ptr<Memory>> make_cuda_memory();

}  // namespace sabot::conformance
