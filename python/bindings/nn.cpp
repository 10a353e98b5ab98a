// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/data/tensorflow_checkpoint.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/loss.hpp"

namespace floodtide::bindings {
namespace {

using nn::Ffn;

View<const float, 3> optional_view(const py::object& object, const std::string& what) {
  return object.is_none() ? View<const float, 3>() : view_of<const float, 3>(object, what);
}

py::array_t<float> forward(Ffn& network, const py::object& image, const py::object& logits) {
  const auto image_view = view_of<const float, 3>(image, "image");
  const auto logits_view = view_of<const float, 3>(logits, "logits");
  Tensor<float, 3> out;
  {
    const py::gil_scoped_release unlocked;
    out = Tensor<float, 3>(image_view.shape());
    network.forward(image_view, logits_view, out.view());
  }
  return to_numpy(std::move(out));
}

py::tuple loss_and_gradients(Ffn& network, const py::object& image, const py::object& logits, const py::object& labels,
                             const py::object& weights, const py::object& gradients, double scale) {
  const auto image_view = view_of<const float, 3>(image, "image");
  const auto logits_view = view_of<const float, 3>(logits, "logits");
  const auto labels_view = view_of<const float, 3>(labels, "labels");
  const auto weights_view = optional_view(weights, "weights");
  const auto gradients_view = view_of<float, 1>(gradients, "gradients");
  Tensor<float, 3> out;
  double loss = 0;
  {
    const py::gil_scoped_release unlocked;
    out = Tensor<float, 3>(image_view.shape());
    loss = network.loss_and_gradients(image_view, logits_view, labels_view, weights_view, gradients_view.span(), scale,
                                      out.view());
  }
  return py::make_tuple(loss, to_numpy(std::move(out)));
}

/// (name, shape, offset) of each array in the flat buffer of parameters.
py::list layout_of(const Ffn& network) {
  py::list result;
  for (const ParameterLayout::Entry& entry : network.layout().entries()) {
    result.append(py::make_tuple(entry.name, py::tuple(py::cast(entry.shape)), entry.offset));
  }
  return result;
}

/// {name: array} of the float arrays whose names begin with `scope`.
py::dict read_tensorflow_checkpoint(const std::string& prefix, const std::string& scope) {
  const data::TensorflowCheckpoint checkpoint(prefix);
  py::dict result;
  for (const data::TensorflowCheckpoint::Entry& entry : checkpoint.entries()) {
    if (!entry.name.starts_with(scope) || !data::TensorflowCheckpoint::is_float(entry)) continue;
    const std::vector<float> values = checkpoint.read(entry);
    result[py::str(entry.name)] =
        py::array_t<float>(std::vector<py::ssize_t>(entry.shape.begin(), entry.shape.end()), values.data());
  }
  return result;
}

}  // namespace

void register_nn(py::module_& m) {
  py::class_<Ffn>(m, "Ffn", "A flood-filling network; see floodtide.nn.FFN.")
      .def(py::init([](int depth, const Vec3& fov, const Vec3& deltas, int features, std::uint64_t seed,
                       const std::string& compute) {
             return Ffn({.depth = depth,
                         .fov = fov,
                         .deltas = deltas,
                         .features = features,
                         .seed = seed,
                         .compute = kernels::compute_named(compute)});
           }),
           py::arg("depth"), py::arg("fov"), py::arg("deltas"), py::arg("features"), py::arg("seed"), py::arg("compute"))
      .def_property_readonly("depth", [](const Ffn& network) { return network.options().depth; })
      .def_property_readonly("fov", [](const Ffn& network) { return py::tuple(py::cast(network.options().fov)); })
      .def_property_readonly("deltas", [](const Ffn& network) { return py::tuple(py::cast(network.options().deltas)); })
      .def_property_readonly("compute",
                             [](const Ffn& network) { return std::string(kernels::name(network.options().compute)); })
      .def_property_readonly("features", [](const Ffn& network) { return network.options().features; })
      .def("layout", &layout_of)
      .def(
          "parameters",
          [](const py::object& self) {
            const std::span<float> values = self.cast<Ffn&>().parameters();
            return py::array_t<float>(static_cast<py::ssize_t>(values.size()), values.data(), self);
          },
          "All parameters as one array that shares memory; call parameters_changed() after writing to it.")
      .def("parameters_changed", &Ffn::parameters_changed)
      .def("forward", &forward, py::arg("image"), py::arg("logits"))
      .def("loss_and_gradients", &loss_and_gradients, py::arg("image"), py::arg("logits"), py::arg("labels"),
           py::arg("weights"), py::arg("gradients"), py::arg("scale"),
           "(loss, updated logits); adds scale times the gradient to `gradients`.")
      .def(
          "relu_masks", [](const Ffn& network) { return to_numpy(network.relu_masks()); },
          "Which ReLU inputs of the last loss_and_gradients were positive: (2 * depth, z, y, x, features) of 0 and 1.")
      .def("workspace_bytes", &Ffn::workspace_bytes)
      .def("kernel_names", &Ffn::kernel_names)
      .def("step_flops", &Ffn::step_flops, py::arg("size"));
  m.def("read_tensorflow_checkpoint", &read_tensorflow_checkpoint, py::arg("prefix"), py::arg("scope"),
        "{name: array} of the float32 arrays of a TensorFlow checkpoint whose names begin with `scope`.");
  m.def(
      "sigmoid_cross_entropy",
      [](const py::object& logits, const py::object& labels, const py::object& weights) {
        return nn::sigmoid_cross_entropy(view_of<const float, 3>(logits, "logits"), view_of<const float, 3>(labels, "labels"),
                                         optional_view(weights, "weights"));
      },
      py::arg("logits"), py::arg("labels"), py::arg("weights"));
}

}  // namespace floodtide::bindings
