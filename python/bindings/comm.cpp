// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/mpi.hpp"

namespace floodtide::bindings {
namespace {

using comm::Communicator;
using comm::MpiLibrary;

/// While a rank waits, Ctrl-C becomes KeyboardInterrupt.
std::shared_ptr<Communicator> interruptible(std::unique_ptr<Communicator> communicator) {
  communicator->set_on_wait([] {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
  return communicator;
}

/// The elements of a writable C-contiguous array of any number of axes.
py::array writable(const py::object& object, const char* what) {
  FLOODTIDE_REQUIRE(py::isinstance<py::array>(object), invalid_argument, what, ": expected a NumPy array, got ",
                    py::type::of(object).attr("__name__").cast<std::string>());
  auto array = py::reinterpret_borrow<py::array>(object);
  FLOODTIDE_REQUIRE((array.flags() & py::array::c_style) != 0 && array.writeable(), invalid_argument, what,
                    ": expected a writable C-contiguous array");
  FLOODTIDE_REQUIRE(!array.dtype().attr("hasobject").cast<bool>(), invalid_argument, what,
                    ": an array of Python objects cannot travel between ranks");
  return array;
}

template <class T>
bool try_allreduce(Communicator& communicator, py::array& array, comm::ReduceOp op, const std::string& algorithm) {
  if (!py::isinstance<py::array_t<T>>(array)) return false;
  const std::span<T> values(static_cast<T*>(array.mutable_data()), static_cast<std::size_t>(array.size()));
  const py::gil_scoped_release unlock;
  comm::allreduce(communicator, values, op, algorithm);
  return true;
}

void allreduce(Communicator& communicator, const py::object& object, const std::string& op_name, const std::string& algorithm) {
  py::array array = writable(object, "allreduce");
  const comm::ReduceOp ops[] = {comm::ReduceOp::sum, comm::ReduceOp::min, comm::ReduceOp::max};
  for (const comm::ReduceOp op : ops) {
    if (comm::name(op) != op_name) continue;
    if (try_allreduce<float>(communicator, array, op, algorithm) || try_allreduce<double>(communicator, array, op, algorithm) ||
        try_allreduce<std::int64_t>(communicator, array, op, algorithm)) {
      return;
    }
    raise(ErrorCode::invalid_argument, "allreduce: expected float32, float64 or int64, got ",
          py::str(array.dtype()).cast<std::string>());
  }
  raise(ErrorCode::invalid_argument, "allreduce: unknown operation '", op_name, "', expected sum, min or max");
}

void broadcast(Communicator& communicator, const py::object& object, int root) {
  py::array array = writable(object, "broadcast");
  const std::span<std::byte> bytes(static_cast<std::byte*>(array.mutable_data()), static_cast<std::size_t>(array.nbytes()));
  const py::gil_scoped_release unlock;
  comm::broadcast(communicator, bytes, root);
}

py::list allgather(Communicator& communicator, const py::bytes& own) {
  const std::string_view text = own;
  const auto all = [&] {
    const py::gil_scoped_release unlock;
    return comm::allgather(communicator, std::as_bytes(std::span(text)));
  }();
  py::list result;
  for (const auto& bytes : all) result.append(py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return result;
}

void register_communicator(py::module_& c) {
  py::class_<Communicator, std::shared_ptr<Communicator>>(
      c, "Communicator", "A group of ranks. Every method but the properties and abort is collective.")
      .def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("size", &Communicator::size)
      .def_property_readonly("description", &Communicator::description, "Transport and library.")
      .def("allreduce", &allreduce, py::arg("array"), py::arg("op"), py::arg("algorithm"),
           "Replace a float32, float64 or int64 array by its sum, min or max over ranks.")
      .def("broadcast", &broadcast, py::arg("array"), py::arg("root"), "Replace an array by root's.")
      .def("allgather", &allgather, py::arg("own"), "Every rank's bytes, in rank order.")
      .def("barrier", &Communicator::barrier, py::call_guard<py::gil_scoped_release>())
      .def(
          "split",
          [](Communicator& communicator, int color, int key) {
            const py::gil_scoped_release unlock;
            return interruptible(communicator.split(color, key));
          },
          py::arg("color"), py::arg("key"))
      .def(
          "abort",
          [](Communicator& communicator, int status, const std::string& reason) {
            const py::gil_scoped_release unlock;
            communicator.abort(status, reason);
          },
          py::arg("status"), py::arg("reason"), "End the job, from any one rank.");
  c.def("self", [] { return interruptible(comm::self()); }, "One rank, for itself.");
}

}  // namespace

void register_comm(py::module_& m) {
  auto c = m.def_submodule("comm", "Ranks and collectives");
  register_communicator(c);
  c.def(
      "allreduce_rows",
      [] {
        py::list rows;
        for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
          rows.append(py::dict(py::arg("name") = std::string(row.name), py::arg("help") = std::string(row.help)));
        }
        return rows;
      },
      "The registry of allreduce algorithms.");
  c.attr("default_allreduce") = std::string(comm::kDefaultAllreduce);
  py::class_<MpiLibrary>(c, "MpiLibrary", "An MPI library and the plug-in for its family; loading it does not start MPI.")
      .def(py::init([](std::string plugin, std::vector<std::string> libraries) {
             return std::make_unique<MpiLibrary>(comm::MpiOptions{std::move(plugin), std::move(libraries)});
           }),
           py::arg("plugin"), py::arg("libraries"))
      .def_property_readonly("family", &MpiLibrary::family)
      .def_property_readonly("library", &MpiLibrary::library)
      .def_property_readonly("version", &MpiLibrary::version)
      .def_property_readonly("handle_bytes", &MpiLibrary::handle_bytes)
      .def("start", &MpiLibrary::start, py::call_guard<py::gil_scoped_release>(), "Start MPI; returns the thread level.")
      .def(
          "world",
          [](MpiLibrary& library) {
            const py::gil_scoped_release unlock;
            return interruptible(library.world());
          },
          "Collective: a duplicate of the world.")
      .def(
          "adopt",
          [](MpiLibrary& library, std::uint64_t handle) {
            const py::gil_scoped_release unlock;
            return interruptible(library.adopt(handle));
          },
          py::arg("handle"), "Collective: a duplicate of the communicator of this handle.")
      .def("finish", &MpiLibrary::finish, py::call_guard<py::gil_scoped_release>(), "End MPI if it was started here.");
}

}  // namespace floodtide::bindings
