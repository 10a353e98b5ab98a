// SPDX-License-Identifier: Apache-2.0
// What the bindings of all networks have in common.
#pragma once

#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/nn/network_use.hpp"

namespace floodtide::bindings {

/// Context manager during which the caller changes the parameters of a network, and passes of other threads wait.
class Change {
 public:
  Change(nn::NetworkUse& use, py::object owner) : use_(&use), owner_(std::move(owner)) {}
  void enter() {
    const py::gil_scoped_release unlocked;
    hold_ = use_->change();
  }
  void exit() { hold_ = {}; }

 private:
  nn::NetworkUse* use_;
  py::object owner_;  // of `use_`
  nn::NetworkUse::Hold hold_;
};

/// Binds parameters and facts. Functions that may wait for other threads release the interpreter lock before.
template <class Network>
void bind_network(py::class_<Network>& network) {
  network.def_property_readonly("options", &Network::options)
      .def("layout", [](const Network& self) { return layout_of(self.layout()); })
      .def(
          "parameters",
          [](const py::object& self) {
            const std::span<float> values = self.cast<Network&>().parameters();
            return py::array_t<float>(static_cast<py::ssize_t>(values.size()), values.data(), self);
          },
          "Return all parameters as one array that shares memory. Call parameters_changed() after writing to the array. No "
          "other "
          "thread may use the network while you write.")
      .def("parameters_changed", &Network::parameters_changed, py::call_guard<py::gil_scoped_release>())
      .def(
          "copy_parameters",
          [](const Network& self) {
            Tensor<float, 1> copy({self.layout().size()});
            {
              const py::gil_scoped_release unlocked;
              const nn::NetworkUse::Hold reading = self.use().read();
              std::ranges::copy(self.parameters(), copy.data());
            }
            return to_numpy(std::move(copy));
          },
          "Return a copy of all parameters, which no other thread changes meanwhile.")
      .def(
          "set_parameters",
          [](Network& self, const FloatArray& values) {
            const auto view = view_of<const float, 1>(values, "parameters");
            FLOODTIDE_REQUIRE(view.size() == self.layout().size(), shape_mismatch, "parameters: ", view.size(),
                              " numbers, expected ", self.layout().size());
            const py::gil_scoped_release unlocked;
            const nn::NetworkUse::Hold change = self.use().change();
            std::ranges::copy(view.span(), self.parameters().begin());
          },
          py::arg("values"), "Replace all parameters, after the passes of other threads that run now.")
      .def(
          "changing", [](const py::object& self) { return std::make_unique<Change>(self.cast<Network&>().use(), self); },
          "Return a context manager for writing to the array of parameters(). Passes of other threads wait, or are waited for.")
      .def_property_readonly(
          "version", [](const Network& self) { return self.use().version(); },
          "Number that grows with each change of the parameters, and with each parameters_changed() that finds one.")
      .def("workspace_bytes", &Network::workspace_bytes)
      .def("kernel_names", &Network::kernel_names)
      .def("step_flops", &Network::step_flops, py::arg("size"))
      .def("forward_flops", &Network::forward_flops, py::arg("size"));
}

}  // namespace floodtide::bindings
