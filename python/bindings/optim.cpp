// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <cmath>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/optim/schedule.hpp"
#include "registry.hpp"

namespace floodtide::bindings {
namespace {

using optim::NamedSpan;
using optim::Optimizer;
using StateArrays = py::typing::Dict<py::str, AnyArray>;

/// Return all elements of a C-contiguous float32 array with any number of axes.
template <class T>
std::span<T> span_of(const py::object& object, const std::string& what) {
  FLOODTIDE_REQUIRE(py::isinstance<py::array_t<float>>(object), invalid_argument, what, ": expected a float32 array, got ",
                    py::type::of(object).attr("__name__").cast<std::string>());
  const auto array = py::reinterpret_borrow<py::array>(object);
  FLOODTIDE_REQUIRE((array.flags() & py::array::c_style) != 0, invalid_argument, what, ": expected a C-contiguous array");
  FLOODTIDE_REQUIRE(std::is_const_v<T> || array.writeable(), invalid_argument, what, ": expected a writeable array");
  return {static_cast<T*>(const_cast<void*>(array.data())), static_cast<std::size_t>(array.size())};
}

void step(Optimizer& optimizer, const FloatArray& parameters, const FloatArray& gradients, double lr) {
  const auto values = span_of<float>(parameters, "parameters");
  const auto grads = span_of<const float>(gradients, "gradients");
  const py::gil_scoped_release unlocked;
  optimizer.step(values, grads, lr);
}

StateArrays state_of(Optimizer& optimizer) {
  StateArrays result;
  for (const NamedSpan& part : optimizer.state()) {
    std::visit(
        [&]<class T>(std::span<T> values) {
          result[py::str(part.name)] = py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
        },
        part.values);
  }
  return result;
}

void load_state(Optimizer& optimizer, const StateArrays& state) {
  const std::vector<NamedSpan> parts = optimizer.state();
  FLOODTIDE_REQUIRE(state.size() == parts.size(), invalid_argument, "optimizer: got ", state.size(), " state arrays, expected ",
                    parts.size());
  for (const NamedSpan& part : parts) {
    FLOODTIDE_REQUIRE(state.contains(part.name), invalid_argument, "optimizer: the state '", part.name, "' is missing");
    std::visit(
        [&]<class T>(std::span<T> values) {
          const View<const T, 1> given = view_of<const T, 1>(state[py::str(part.name)], "optimizer state " + part.name);
          FLOODTIDE_REQUIRE(given.span().size() == values.size(), shape_mismatch, "optimizer: the state '", part.name, "' has ",
                            given.size(), " values, expected ", values.size());
          std::ranges::copy(given.span(), values.begin());
        },
        part.values);
  }
}

}  // namespace

void register_optim(py::module_& m) {
  py::class_<Optimizer>(m, "Optimizer", "An optimizer with its state; see floodtide.optim.")
      .def(py::init(&optim::make_optimizer), py::arg("name"), py::arg("values"), py::arg("parameter_count"))
      .def("step", &step, py::arg("parameters"), py::arg("gradients"), py::arg("lr"))
      .def("state", &state_of)
      .def("load_state", &load_state, py::arg("state"));
  py::class_<optim::Schedule>(m, "Schedule", "A learning rate as a function of the step; see floodtide.optim.lr.")
      .def(py::init(&optim::make_schedule), py::arg("name"), py::arg("values"), py::arg("factor"))
      .def("at", &optim::Schedule::at, py::arg("step"));
  m.def("scale_factor", &optim::scale_factor, py::arg("rule"), py::arg("values"), py::arg("workers"));
  m.def(
      "clip_entries",
      [](const FloatArray& gradients, float limit) { optim::clip_entries(span_of<float>(gradients, "gradients"), limit); },
      py::arg("gradients"), py::arg("limit"));
  m.def("optimizer_rows", [] { return rows_with_parameters(optim::optimizer_rows()); });
  m.def("schedule_rows", [] { return rows_with_parameters(optim::schedule_rows()); });
  m.def("scale_rows", [] { return rows_with_parameters(optim::scale_rows()); });
}

}  // namespace floodtide::bindings
