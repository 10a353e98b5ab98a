// SPDX-License-Identifier: Apache-2.0
// Collectives on NumPy arrays. An operation keeps its arrays alive. Arrays are not copied here.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/immovable.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/exchange.hpp"
#include "unlocked.hpp"

namespace floodtide::bindings {
namespace {

using comm::Communicator;

constexpr const char* kObjects = ": an array of Python objects cannot travel between ranks";

/// Return `object` as a writable C-contiguous array with any number of axes. Throws Error(invalid_argument) otherwise.
py::array writable(const py::object& object, const char* what) {
  FLOODTIDE_REQUIRE(py::isinstance<py::array>(object), invalid_argument, what, ": expected a NumPy array, got ",
                    py::type::of(object).attr("__name__").cast<std::string>());
  auto array = py::reinterpret_borrow<py::array>(object);
  FLOODTIDE_REQUIRE((array.flags() & py::array::c_style) != 0 && array.writeable(), invalid_argument, what,
                    ": expected a writable C-contiguous array");
  FLOODTIDE_REQUIRE(!array.dtype().attr("hasobject").cast<bool>(), invalid_argument, what, kObjects);
  return array;
}

std::string text_of(const py::handle& object) { return py::str(object).cast<std::string>(); }

bool is_of(const py::dtype& dtype, comm::ReduceType type) {
  const std::string_view text = name(type);
  const char kind = text.starts_with("float") ? 'f' : text.starts_with("uint") ? 'u' : 'i';
  return dtype.kind() == kind && static_cast<std::size_t>(dtype.itemsize()) == comm::element_bytes(type) &&
         dtype.attr("isnative").cast<bool>();
}

/// Return an array as a ReduceBuffer. Throws for an element type that reductions do not support.
comm::ReduceBuffer reducible(py::array& array, const char* what) {
  require_plain(array, what);
  const py::dtype dtype = array.dtype();
  for (const auto& row : names_of(comm::ReduceType{}).rows) {
    if (is_of(dtype, row.value)) {
      return {static_cast<std::byte*>(array.mutable_data()), static_cast<std::int64_t>(array.size()), row.value};
    }
  }
  raise(ErrorCode::invalid_argument, what, ": expected ", listed_names<comm::ReduceType>(), ", got ", text_of(dtype));
}

comm::ReduceOp reduce_op(const std::string& text, const char* what) {
  return named<comm::ReduceOp>(text, str_cat(what, ": operation"));
}

/// An operation, and the communicator and array that it needs. The destructor waits without the interpreter lock.
class PyOperation : Immovable {
 public:
  PyOperation(std::shared_ptr<Communicator> communicator, py::array array)
      : communicator_(std::move(communicator)), array_(std::move(array)) {}
  /// A handle that is dropped waits as synchronize() does: the time limit counts, and Ctrl-C ends the wait.
  ~PyOperation() {
    std::exception_ptr failure;
    {
      const py::gil_scoped_release unlock;
      try {
        operation_.wait();
      } catch (...) {
        failure = std::current_exception();
      }
      operation_ = {};  // the next call on the communicator throws a failure
    }
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const py::error_already_set&) {
      PyErr_SetInterrupt();            // a destructor cannot raise KeyboardInterrupt; the next Python instruction does
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see above
    }
  }

  void begin(comm::Operation operation) { operation_ = std::move(operation); }
  /// True if the operation is done. Calls on_wait otherwise, because a rank that calls test() in a loop waits, too.
  bool test() {
    const bool done = operation_.test();
    if (!done && communicator_->on_wait()) communicator_->on_wait()();
    return done;
  }
  void wait() { operation_.wait(); }
  [[nodiscard]] int contributors() const { return operation_.contributors(); }

 private:
  std::shared_ptr<Communicator> communicator_;
  py::array array_;
  comm::Operation operation_;
};

/// Return an array that owns these bytes.
py::array_t<std::uint8_t> array_of(AlignedBuffer<std::byte> bytes) {
  const auto owner = std::make_shared<AlignedBuffer<std::byte>>(std::move(bytes));
  return shared_array(reinterpret_cast<std::uint8_t*>(owner->data()), Shape<1>{owner->size()}, owner);
}

/// An exchange of rows. The number of rows received is known when the exchange is done.
class PyExchange {
 public:
  PyExchange(std::shared_ptr<Communicator> communicator, py::array array)
      : operation_(std::move(communicator), std::move(array)) {}

  void begin(comm::Operation operation) { operation_.begin(std::move(operation)); }
  bool test() { return operation_.test(); }
  void wait() { operation_.wait(); }
  [[nodiscard]] const std::shared_ptr<comm::Exchange>& exchange() const { return exchange_; }

  /// Return the number of rows from each rank, and an array with the bytes of all rows. Call this when the exchange is done.
  Typed<"tuple[list[int], numpy.typing.NDArray[numpy.uint8]]"> result() {
    exchange_->require_done();
    const std::vector<std::int64_t> counts(exchange_->counts().begin(), exchange_->counts().end());
    return py::make_tuple(counts, array_of(std::move(exchange_->data())));
  }

 private:
  std::shared_ptr<comm::Exchange> exchange_ = std::make_shared<comm::Exchange>();
  PyOperation operation_;
};

std::unique_ptr<PyOperation> start_allreduce(const std::shared_ptr<Communicator>& communicator, const AnyArray& object,
                                             const std::string& op_name, const std::string& algorithm,
                                             const std::string& wire_name, const std::string& words) {
  py::array array = writable(object, "allreduce");
  const comm::ReduceBuffer buffer = reducible(array, "allreduce");
  const comm::ReduceOp op = reduce_op(op_name, "allreduce");
  const comm::Wire wire = named<comm::Wire>(wire_name);
  auto operation = std::make_unique<PyOperation>(communicator, array);
  const py::gil_scoped_release unlock;
  operation->begin(comm::start_allreduce(*communicator, buffer, op, {.algorithm = algorithm, .wire = wire, .words = words}));
  return operation;
}

void library_allreduce(Communicator& communicator, const AnyArray& object, const std::string& op_name) {
  py::array array = writable(object, "allreduce");
  const comm::ReduceBuffer buffer = reducible(array, "allreduce");
  const comm::ReduceOp op = reduce_op(op_name, "allreduce");
  const py::gil_scoped_release unlock;
  communicator.blocking_library_allreduce(buffer, op);
}

std::unique_ptr<PyOperation> start_reduce_scatter(const std::shared_ptr<Communicator>& communicator, const AnyArray& object,
                                                  const std::string& op_name, const std::vector<std::int64_t>& blocks,
                                                  const std::string& wire_name, const std::string& words) {
  py::array array = writable(object, "reduce_scatter");
  const comm::ReduceBuffer buffer = reducible(array, "reduce_scatter");
  const comm::ReduceOp op = reduce_op(op_name, "reduce_scatter");
  const comm::Wire wire = named<comm::Wire>(wire_name);
  auto operation = std::make_unique<PyOperation>(communicator, array);
  const py::gil_scoped_release unlock;
  operation->begin(comm::start_reduce_scatter(*communicator, buffer, op, blocks, wire, words));
  return operation;
}

std::span<std::byte> bytes_of(py::array& array) {
  return {static_cast<std::byte*>(array.mutable_data()), static_cast<std::size_t>(array.nbytes())};
}

std::unique_ptr<PyOperation> start_broadcast(const std::shared_ptr<Communicator>& communicator, const AnyArray& object,
                                             int root, const std::string& words) {
  py::array array = writable(object, "broadcast");
  const std::span<std::byte> bytes = bytes_of(array);
  auto operation = std::make_unique<PyOperation>(communicator, array);
  const py::gil_scoped_release unlock;
  operation->begin(comm::start_broadcast(*communicator, bytes, root, words));
  return operation;
}

/// Return the rows of an array as Items. If the array is invalid, the items have a problem, which all ranks raise.
comm::Items rows_of(const py::array& array, const char* what, const std::string& problem) {
  const std::string type = text_of(array.dtype());
  const std::string shape = text_of(array.attr("shape"));
  comm::Items items;
  items.description = str_cat(type, " of shape ", shape);
  items.problem = problem;
  if (!problem.empty()) return items;
  if (array.dtype().attr("hasobject").cast<bool>()) {
    items.problem = str_cat(what, kObjects);
  } else if (array.ndim() == 0) {
    items.problem = str_cat(what, ": expected an array with at least one axis, got ", items.description);
  } else if ((array.flags() & py::array::c_style) == 0) {
    items.problem = str_cat(what, ": expected a C-contiguous array");
  } else {
    items.count = static_cast<std::int64_t>(array.shape(0));
    items.item_bytes = static_cast<std::int64_t>(array.itemsize());
    items.kind = type;
    for (py::ssize_t axis = 1; axis < array.ndim(); ++axis) {
      items.item_bytes *= static_cast<std::int64_t>(array.shape(axis));
      items.kind += str_cat(" ", array.shape(axis));
    }
    items.data = {static_cast<const std::byte*>(array.data()), static_cast<std::size_t>(array.nbytes())};
  }
  return items;
}

std::unique_ptr<PyExchange> start_allgather(const std::shared_ptr<Communicator>& communicator, const py::array& array) {
  const comm::Items items = rows_of(array, "allgather", {});
  auto operation = std::make_unique<PyExchange>(communicator, array);
  const py::gil_scoped_release unlock;
  operation->begin(comm::start_allgather(*communicator, items, operation->exchange()));
  return operation;
}

std::unique_ptr<PyExchange> start_alltoall(const std::shared_ptr<Communicator>& communicator, const py::array& array,
                                           const std::vector<std::int64_t>& splits, const std::string& problem) {
  const comm::Items items = rows_of(array, "alltoall", problem);
  auto operation = std::make_unique<PyExchange>(communicator, array);
  const py::gil_scoped_release unlock;
  operation->begin(comm::start_alltoall(*communicator, items, splits, operation->exchange()));
  return operation;
}

Typed<"list[bytes]"> allgather(Communicator& communicator, const py::bytes& own, const std::string& words) {
  const std::string_view text = own;
  const auto all = [&] {
    const py::gil_scoped_release unlock;
    return comm::allgather(communicator, std::as_bytes(std::span(text)), words);
  }();
  py::list result;
  for (const auto& bytes : all) result.append(py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return result;
}

}  // namespace

void register_operations(py::module_& c, CommunicatorClass& communicator) {
  py::class_<PyOperation>(c, "Operation", "A collective in progress.")
      .def("test", &PyOperation::test, py::call_guard<py::gil_scoped_release>(),
           "Advance the collective. Return True if it is complete.")
      .def("wait", &PyOperation::wait, py::call_guard<py::gil_scoped_release>(), "Wait until the collective is complete.")
      .def_property_readonly("contributors", &PyOperation::contributors,
                             "Number of ranks that contributed values, once complete. The other ranks have joined.");
  py::class_<comm::OperationGroup, std::shared_ptr<comm::OperationGroup>>(c, "OperationGroup",
                                                                          "Several collectives that ranks compare as one.")
      .def("start", &comm::OperationGroup::start, py::arg("words"), py::call_guard<py::gil_scoped_release>(),
           "Start all collectives that were held back since the group was opened.")
      .def("drop", &comm::OperationGroup::drop, py::call_guard<py::gil_scoped_release>(),
           "Discard all collectives that were held back since the group was opened.");
  py::class_<PyExchange>(c, "Exchange", "An allgather or alltoall of rows in progress.")
      .def("test", &PyExchange::test, py::call_guard<py::gil_scoped_release>(),
           "Advance the exchange. Return True if it is complete.")
      .def("wait", &PyExchange::wait, py::call_guard<py::gil_scoped_release>(), "Wait until the exchange is complete.")
      .def("result", &PyExchange::result,
           "Return the number of rows from each rank, and their bytes. Call once, after completion. Raises on every rank if "
           "the calls of the ranks did not match.");
  py::list types;
  for (const auto& row : names_of(comm::ReduceType{}).rows) types.append(std::string(row.name));
  c.attr("element_types") = types;
  communicator
      .def("start_allreduce", &start_allreduce, py::arg("array"), py::arg("op"), py::arg("algorithm"),
           py::arg("wire") = "native", py::arg("words") = "",
           "Start to overwrite an array with its sum, minimum, maximum or product over ranks. Do not use the array before the "
           "operation is complete. `words` describe the values and must be equal on all ranks.")
      .def("blocking_library_allreduce", &library_allreduce, py::arg("array"), py::arg("op"),
           "Call the blocking allreduce of the MPI library, which cannot be interrupted. Benchmarks compare with it.")
      .def("start_reduce_scatter", &start_reduce_scatter, py::arg("array"), py::arg("op"), py::arg("blocks"), py::arg("wire"),
           py::arg("words"),
           "Start to overwrite this rank's block of an array with its reduction over ranks. The other blocks are undefined "
           "afterwards.")
      .def(
          "open_group", [](Communicator& ranks)->Typed<"floodtide._core.comm.OperationGroup"> {
            return keeping(std::make_shared<comm::OperationGroup>(ranks), ranks);
          },
          "Return a group that holds back all following collectives until the group is started.")
      .def("start_broadcast", &start_broadcast, py::arg("array"), py::arg("root"), py::arg("words"),
           "Start to overwrite an array with that of rank `root`.")
      .def("start_allgather", &start_allgather, py::arg("array"), "Start to gather the rows of all ranks.")
      .def("start_alltoall", &start_alltoall, py::arg("array"), py::arg("splits"), py::arg("problem"),
           "Start to send splits[r] rows to rank r. If `problem` is not empty, all ranks raise it.")
      .def("allgather", &allgather, py::arg("own"), py::arg("words") = "", "Return the bytes of all ranks, in rank order.");
}

}  // namespace floodtide::bindings
