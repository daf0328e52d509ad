// The extension module sabot._native: what sabot/torch.py calls.
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <torch/csrc/utils/pybind.h>
#include <stdexcept>

#include "pytorch/backend.hpp"
#include "pytorch/library.hpp"
#include "pytorch/proxy/proxy.hpp"

namespace sabot::pytorch {
namespace {

namespace py = pybind11;

// Python objects of torch.distributed that are passed through this module.
using BackendRef = c10::intrusive_ptr<::c10d::Backend>;

py::dict use_library(const std::string& standin_path) {
  const std::string problem = open_library(standin_path.c_str());
  if (!problem.empty()) throw std::runtime_error(problem);
  py::dict found;
  found["version"] = library().version;
  found["library"] = library().way;
  return found;
}

Member member_of(int rank, int size, std::chrono::milliseconds timeout, std::string group,
                 std::vector<std::int64_t> global_ranks) {
  Member member;
  member.rank = rank;
  member.size = size;
  member.timeout = timeout;
  member.group = std::move(group);
  member.global_ranks = std::move(global_ranks);
  return member;
}

BackendRef create(const StoreRef& store, int rank, int size, std::chrono::milliseconds timeout,
                  std::string group, std::vector<std::int64_t> global_ranks) {
  return SabotBackend::create(
      store, member_of(rank, size, timeout, std::move(group), std::move(global_ranks)));
}

BackendRef create_proxy(const BackendRef& wrapped, const std::string& name, int rank, int size,
                        std::string group, std::vector<std::int64_t> global_ranks) {
  return proxy::Proxy::create(wrapped, name,
                              member_of(rank, size, std::chrono::milliseconds(0), std::move(group),
                                        std::move(global_ranks)));
}

void barrier_with_names(const BackendRef& backend, std::chrono::milliseconds timeout,
                        bool wait_all_ranks) {
  ::c10d::BarrierOptions options;
  options.timeout = timeout;
  backend->monitoredBarrier(options, wait_all_ranks);
}

py::bytes dump_flight_recorder() { return Recorder::get().dump(); }

}  // namespace

PYBIND11_MODULE(_native, module) {
  py::module_::import("torch._C._distributed_c10d");
  const py::call_guard<py::gil_scoped_release> without_lock;
  module.doc() = "torch.distributed over Sabot; see sabot.torch";
  module.def("use_library", &use_library, py::arg("standin_path"));
  module.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout"), py::arg("group_id"), py::arg("global_ranks"), without_lock);
  module.def("create_proxy", &create_proxy, py::arg("wrapped"), py::arg("name"), py::arg("rank"),
             py::arg("size"), py::arg("group_id"), py::arg("global_ranks"), without_lock);
  module.def("monitored_barrier", &barrier_with_names, py::arg("backend"), py::arg("timeout"),
             py::arg("wait_all_ranks"), without_lock);
  module.def("dump_flight_recorder", &dump_flight_recorder);
}

}  // namespace sabot::pytorch
