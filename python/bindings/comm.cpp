// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/delayed.hpp"
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

/// An array as reductions see it. Throws for types that have none.
comm::ReduceBuffer reducible(py::array& array, const char* what) {
  const auto buffer = [&](comm::ElementType type) {
    return comm::ReduceBuffer{static_cast<std::byte*>(array.mutable_data()), static_cast<std::int64_t>(array.size()), type};
  };
  if (py::isinstance<py::array_t<float>>(array)) return buffer(comm::ElementType::float32);
  if (py::isinstance<py::array_t<double>>(array)) return buffer(comm::ElementType::float64);
  if (py::isinstance<py::array_t<std::int64_t>>(array)) return buffer(comm::ElementType::int64);
  raise(ErrorCode::invalid_argument, what, ": expected float32, float64 or int64, got ",
        py::str(array.dtype()).cast<std::string>());
}

comm::ReduceOp reduce_op(const std::string& name, const char* what) {
  for (const comm::ReduceOp op : {comm::ReduceOp::sum, comm::ReduceOp::min, comm::ReduceOp::max}) {
    if (comm::name(op) == name) return op;
  }
  raise(ErrorCode::invalid_argument, what, ": unknown operation '", name, "', expected sum, min or max");
}

/// An operation with what it needs to stay alive. Its end waits without the interpreter's lock.
class PyOperation {
 public:
  PyOperation(std::shared_ptr<Communicator> communicator, py::array array)
      : communicator_(std::move(communicator)), array_(std::move(array)) {}
  PyOperation(const PyOperation&) = delete;
  PyOperation& operator=(const PyOperation&) = delete;
  PyOperation(PyOperation&&) = delete;
  PyOperation& operator=(PyOperation&&) = delete;
  ~PyOperation() {
    const py::gil_scoped_release unlock;
    operation_ = {};
  }

  void begin(comm::Operation operation) { operation_ = std::move(operation); }
  bool test() { return operation_.test(); }
  void wait() { operation_.wait(); }

 private:
  std::shared_ptr<Communicator> communicator_;
  py::array array_;
  comm::Operation operation_;
};

std::unique_ptr<PyOperation> start_allreduce(const std::shared_ptr<Communicator>& communicator, const py::object& object,
                                             const std::string& op_name, const std::string& algorithm,
                                             const std::string& wire_name) {
  py::array array = writable(object, "allreduce");
  const comm::ReduceBuffer buffer = reducible(array, "allreduce");
  const comm::ReduceOp op = reduce_op(op_name, "allreduce");
  const comm::Wire wire = comm::wire_named(wire_name);
  auto operation = std::make_unique<PyOperation>(communicator, array);
  const py::gil_scoped_release unlock;
  operation->begin(comm::start_allreduce(*communicator, buffer, op, {.algorithm = algorithm, .wire = wire}));
  return operation;
}

void allreduce(const std::shared_ptr<Communicator>& communicator, const py::object& object, const std::string& op_name,
               const std::string& algorithm, const std::string& wire_name) {
  const auto operation = start_allreduce(communicator, object, op_name, algorithm, wire_name);
  const py::gil_scoped_release unlock;
  operation->wait();
}

void library_allreduce(Communicator& communicator, const py::object& object, const std::string& op_name) {
  py::array array = writable(object, "allreduce");
  const comm::ReduceBuffer buffer = reducible(array, "allreduce");
  const comm::ReduceOp op = reduce_op(op_name, "allreduce");
  const py::gil_scoped_release unlock;
  communicator.blocking_library_allreduce(buffer, op);
}

void reduce_scatter(Communicator& communicator, const py::object& object, const std::string& op_name,
                    const std::vector<std::int64_t>& blocks, const std::string& wire_name) {
  py::array array = writable(object, "reduce_scatter");
  const comm::ReduceBuffer buffer = reducible(array, "reduce_scatter");
  const comm::ReduceOp op = reduce_op(op_name, "reduce_scatter");
  const comm::Wire wire = comm::wire_named(wire_name);
  const py::gil_scoped_release unlock;
  comm::reduce_scatter(communicator, buffer, op, blocks, wire);
}

std::span<std::byte> bytes_of(py::array& array) {
  return {static_cast<std::byte*>(array.mutable_data()), static_cast<std::size_t>(array.nbytes())};
}

void broadcast(Communicator& communicator, const py::object& object, int root) {
  py::array array = writable(object, "broadcast");
  const std::span<std::byte> bytes = bytes_of(array);
  const py::gil_scoped_release unlock;
  comm::broadcast(communicator, bytes, root);
}

void allgather_into(Communicator& communicator, const py::object& object, const std::vector<std::int64_t>& blocks) {
  py::array array = writable(object, "allgather");
  const std::span<std::byte> bytes = bytes_of(array);
  const py::gil_scoped_release unlock;
  comm::allgather(communicator, bytes, blocks);
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
      .def_property_readonly(
          "traffic",
          [](const Communicator& communicator) {
            const comm::Traffic traffic = communicator.traffic();
            return py::dict(py::arg("messages") = traffic.messages, py::arg("bytes") = traffic.bytes,
                            py::arg("notices") = traffic.notices);
          },
          "Messages and bytes that this rank has sent, and notices about collectives.")
      .def("pending", &Communicator::pending, py::call_guard<py::gil_scoped_release>(),
           "A line for each collective in flight: what it is, its step, the rank that it waits for.")
      .def("set_ranks_per_node", &Communicator::set_ranks_per_node, py::arg("ranks"),
           "Take so many consecutive ranks for a node; same value on all ranks.")
      .def("allreduce", &allreduce, py::arg("array"), py::arg("op"), py::arg("algorithm"), py::arg("wire") = "native",
           "Replace a float32, float64 or int64 array by its sum, min or max over ranks.")
      .def("start_allreduce", &start_allreduce, py::arg("array"), py::arg("op"), py::arg("algorithm"),
           py::arg("wire") = "native", "Start to replace an array; it must not be touched until the operation is done.")
      .def("blocking_library_allreduce", &library_allreduce, py::arg("array"), py::arg("op"),
           "The MPI library's blocking allreduce, which cannot be interrupted: what benchmarks compare with.")
      .def("reduce_scatter", &reduce_scatter, py::arg("array"), py::arg("op"), py::arg("blocks"), py::arg("wire") = "native",
           "Replace this rank's block of an array by its sum, min or max over ranks; the other blocks are spoilt.")
      .def("allgather_into", &allgather_into, py::arg("array"), py::arg("blocks"),
           "Fill an array with every rank's block; blocks are limits in bytes.")
      .def(
          "join",
          [](Communicator& communicator) {
            const py::gil_scoped_release unlock;
            return comm::join(communicator);
          },
          "Answer the other ranks' collectives until all have joined; returns the last rank to join.")
      .def(
          "allreduce_table",
          [](Communicator& communicator) {
            const py::gil_scoped_release unlock;
            return comm::allreduce_table(communicator).text();
          },
          "The algorithms behind \"auto\" by message size, measured if they have not been.")
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
      .def_property_readonly("survives", &Communicator::survives, "Whether the others can go on when a rank is lost.")
      .def(
          "settle",
          [](Communicator& communicator, bool fine) -> std::shared_ptr<Communicator> {
            const py::gil_scoped_release unlock;
            auto rest = communicator.settle(fine);
            return rest ? interruptible(std::move(rest)) : nullptr;
          },
          py::arg("fine"), "None if all ranks are fine, else a communicator of those that are left.")
      .def(
          "abort",
          [](Communicator& communicator, int status, const std::string& reason) {
            const py::gil_scoped_release unlock;
            communicator.abort(status, reason);
          },
          py::arg("status"), py::arg("reason"), "End the job, from any one rank.");
  py::class_<PyOperation>(c, "Operation", "A collective under way.")
      .def("test", &PyOperation::test, py::call_guard<py::gil_scoped_release>(), "Drive it; true when it is done.")
      .def("wait", &PyOperation::wait, py::call_guard<py::gil_scoped_release>(), "Return when it is done.");
  c.def(
      "delayed",
      [](Communicator& communicator, double latency_s, double bytes_per_s) {
        const py::gil_scoped_release unlock;
        return std::shared_ptr<Communicator>(comm::delayed(communicator, {latency_s, bytes_per_s}));
      },
      py::arg("communicator"), py::arg("latency_s"), py::arg("bytes_per_s"),
      "Collective, for benchmarks: the same ranks behind a slower wire.");
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
          rows.append(py::dict(py::arg("name") = std::string(row.name), py::arg("help") = std::string(row.help),
                               py::arg("wires") = row.schedule == nullptr ? 1 : 2));
        }
        return rows;
      },
      "The registry of allreduce algorithms.");
  c.attr("default_allreduce") = std::string(comm::kDefaultAllreduce);
  c.attr("auto_allreduce") = std::string(comm::kAutoAllreduce);
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
