// What bench/torch_bench.py measures below Python: loops over a c10d::Backend and over NCCL's API,
// and a backend that does nothing, the floor of what torch.distributed itself costs a call.
#include <dlfcn.h>
#include <nccl.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

namespace {

namespace py = pybind11;
using BackendRef = c10::intrusive_ptr<c10d::Backend>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Done : c10d::Work {
  bool wait(std::chrono::milliseconds) override { return true; }
};

struct Empty : c10d::Backend {
  Empty(int rank, int size) : c10d::Backend(rank, size) {}
  const std::string getBackendName() const override { return "empty"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                           const c10d::AllreduceOptions&) override {
    return c10::make_intrusive<Done>();
  }
};

// Seconds for one of `iterations` synchronous all-reduces.
double backend_seconds(const BackendRef& backend, const at::Tensor& tensor, int iterations) {
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  std::vector<at::Tensor> tensors{tensor};
  const auto start = Clock::now();
  for (int i = 0; i < iterations; ++i) {
    const auto work = backend->allreduce(tensors, options);
    if (work) work->wait();
  }
  return seconds_since(start) / iterations;
}

// A communicator of the same library, used as a C program would use it.
class Direct {
 public:
  Direct(const std::string& path, const std::string& identity, int rank, int size) {
    open(path);
    ncclUniqueId id;
    std::memcpy(&id, identity.data(), sizeof id);
    check(init_(&comm_, size, id, rank));
  }

  static py::bytes identity(const std::string& path) {
    Direct library;
    library.open(path);
    ncclUniqueId id;
    library.check(library.unique_id_(&id));
    return py::bytes(reinterpret_cast<const char*>(&id), sizeof id);
  }

  double seconds(const at::Tensor& tensor, int iterations) {
    const auto count = static_cast<size_t>(tensor.numel());
    const auto start = Clock::now();
    for (int i = 0; i < iterations; ++i) {
      check(all_reduce_(tensor.data_ptr(), tensor.data_ptr(), count, ncclFloat32, ncclSum, comm_,
                        nullptr));
    }
    return seconds_since(start) / iterations;
  }

 private:
  Direct() = default;

  template <typename Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(dlerror());
  }

  void open(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    find(library, "ncclGetUniqueId", unique_id_);
    find(library, "ncclCommInitRank", init_);
    find(library, "ncclAllReduce", all_reduce_);
    find(library, "ncclGetLastError", last_error_);
  }

  void check(ncclResult_t result) {
    if (result != ncclSuccess) throw std::runtime_error(last_error_(nullptr));
  }

  ncclComm_t comm_ = nullptr;
  decltype(&ncclGetUniqueId) unique_id_ = nullptr;
  decltype(&ncclCommInitRank) init_ = nullptr;
  decltype(&ncclAllReduce) all_reduce_ = nullptr;
  decltype(&ncclGetLastError) last_error_ = nullptr;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::module_::import("torch._C._distributed_c10d");
  const py::call_guard<py::gil_scoped_release> without_lock;
  module.def("empty", [](int rank, int size) -> BackendRef {
    return c10::make_intrusive<Empty>(rank, size);
  });
  module.def("backend_seconds", &backend_seconds, without_lock);
  py::class_<Direct>(module, "Direct")
      .def(py::init<const std::string&, const std::string&, int, int>(), without_lock)
      .def_static("identity", &Direct::identity)
      .def("seconds", &Direct::seconds, without_lock);
}
