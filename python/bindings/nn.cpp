// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/base/crc32c.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/limits.hpp"
#include "floodtide/nn/sample_network.hpp"
#include "options.hpp"

namespace floodtide::bindings {
namespace {

using nn::Ffn;
using nn::FfnOptions;

/// Return image `i` of a batch [n, z, y, x], or an empty view if the batch is empty.
template <class T>
View<T, 3> image_of(const View<T, 4>& batch, std::int64_t i) {
  if (batch.empty()) return {};
  const Shape<3> shape{batch.shape(1), batch.shape(2), batch.shape(3)};
  return {batch.data() + i * volume<3>(shape), shape};
}

/// Return a view of an array [n, z, y, x]. Throws Error(shape_mismatch) unless n is `count`, the number of images.
View<const float, 4> batch_of(const py::object& object, const std::string& what, std::int64_t count) {
  const auto view = view_of<const float, 4>(object, what);
  FLOODTIDE_REQUIRE(view.shape(0) == count, shape_mismatch, what, ": ", view.shape(0), " examples, expected ", count);
  return view;
}

std::vector<nn::FfnExample> examples_of(View<const float, 4> images, View<const float, 4> seeds, View<float, 4> out,
                                        View<const float, 4> labels = {}, View<const float, 4> weights = {}) {
  std::vector<nn::FfnExample> batch;
  for (std::int64_t i = 0; i < images.shape(0); ++i) {
    batch.push_back({image_of(images, i), image_of(seeds, i), image_of(out, i), image_of(labels, i), image_of(weights, i)});
  }
  return batch;
}

py::array_t<float> forward(Ffn& network, const FloatArray& image, const FloatArray& logits,
                           const std::optional<std::string>& by) {
  const auto images = view_of<const float, 4>(image, "image");
  const auto seeds = batch_of(logits, "logits", images.shape(0));
  const std::optional<nn::Forward> way = by ? std::optional(named<nn::Forward>(*by)) : std::nullopt;
  return to_numpy(without_lock([&] {
    Tensor<float, 4> out(images.shape());
    network.forward(examples_of(images, seeds, out.view()), way);
    return out;
  }));
}

Typed<"list[float]"> loss_and_gradients(Ffn& network, const FloatArray& image, const FloatArray& logits,
                                        const FloatArray& labels, const OptionalFloatArray& weights,
                                        const FloatArray& gradients, double scale) {
  const auto images = view_of<const float, 4>(image, "image");
  const auto seeds = batch_of(logits, "logits", images.shape(0));
  const auto targets = batch_of(labels, "labels", images.shape(0));
  const auto voxel_weights = weights.is_none() ? View<const float, 4>() : batch_of(weights, "weights", images.shape(0));
  const auto gradients_view = view_of<float, 1>(gradients, "gradients");
  std::vector<nn::FfnExample> batch;
  {
    const py::gil_scoped_release unlocked;
    Tensor<float, 4> out(images.shape());
    batch = examples_of(images, seeds, out.view(), targets, voxel_weights);
    network.loss_and_gradients(batch, gradients_view.span(), scale);
  }
  py::list losses;
  for (const nn::FfnExample& example : batch) losses.append(example.loss);
  return losses;
}

/// Context manager during which the caller changes the parameters of a network, and passes of other threads wait.
struct Change {
  nn::NetworkUse& use;
  py::object owner;  // of `use`
  nn::NetworkUse::Hold hold = {};
};

/// Functions that may wait for other threads release the interpreter lock before.
void register_networks(py::module_& m) {
  py::class_<Change>(m, "Change", "A change of the parameters of a network, in a `with` block.")
      .def(
          "__enter__", [](Change& change) { change.hold = change.use.change(); }, py::call_guard<py::gil_scoped_release>())
      .def("__exit__", [](Change& change, const py::Args<py::object>&) { change.hold = {}; });
  py::class_<nn::Network>(m, "Network", "What all networks have in common.")
      .def("layout", [](const nn::Network& self) { return layout_of(self.layout()); })
      .def(
          "parameters",
          [](const py::object& self) {
            const std::span<float> values = self.cast<nn::Network&>().parameters();
            return py::array_t<float>(static_cast<py::ssize_t>(values.size()), values.data(), self);
          },
          "Return all parameters as one array that shares memory. Call parameters_changed() after writing to the array. No "
          "other "
          "thread may use the network while you write.")
      .def("parameters_changed", &nn::Network::parameters_changed, py::call_guard<py::gil_scoped_release>())
      .def(
          "copy_parameters",
          [](const nn::Network& self) {
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
          [](nn::Network& self, const FloatArray& values) {
            const auto view = view_of<const float, 1>(values, "parameters");
            FLOODTIDE_REQUIRE(view.size() == self.layout().size(), shape_mismatch, "parameters: ", view.size(),
                              " numbers, expected ", self.layout().size());
            const py::gil_scoped_release unlocked;
            const nn::NetworkUse::Hold change = self.use().change();
            std::ranges::copy(view.span(), self.parameters().begin());
          },
          py::arg("values"), "Replace all parameters, after the passes of other threads that run now.")
      .def(
          "changing", [](const py::object& self) { return std::make_unique<Change>(self.cast<nn::Network&>().use(), self); },
          "Return a context manager for writing to the array of parameters(). Passes of other threads wait, or are waited for.")
      .def_property_readonly(
          "version", [](const nn::Network& self) { return self.use().version(); },
          "Number that grows with each change of the parameters, and with each parameters_changed() that finds one.")
      .def("workspace_bytes", &nn::Network::workspace_bytes)
      .def("kernel_names", &nn::Network::kernel_names);
  py::class_<nn::SampleNetwork, nn::Network>(m, "SampleNetwork", "A network that predicts all voxels of an image in one pass.");
}

}  // namespace

void register_nn(py::module_& m) {
  register_networks(m);
  m.def(
      "network_limits",
      []() -> NamedLimits {
        return py::dict(py::arg("ffn_depth") = dict_of(nn::kFfnDepth), py::arg("ffn_features") = dict_of(nn::kFfnFeatures),
                        py::arg("field_of_view") = dict_of(nn::kFieldOfView), py::arg("delta") = dict_of(nn::kDelta),
                        py::arg("unet_depth") = dict_of(nn::kUNetDepth), py::arg("unet_features") = dict_of(nn::kUNetFeatures),
                        py::arg("unet_channels") = dict_of(nn::kUNetChannels), py::arg("classes") = dict_of(nn::kClasses),
                        py::arg("kernel") = dict_of(nn::kKernel), py::arg("pool") = dict_of(nn::kPool),
                        py::arg("dropout") = dict_of(nn::kDropout));
      },
      "Return {name: range} of the properties of networks; see floodtide.base.limits.");
  Options<FfnOptions>(m, "FfnOptions", "Properties of a flood-filling network; see floodtide.nn.FFN.")
      .field("depth", &FfnOptions::depth)
      .field("features", &FfnOptions::features)
      .field("fov", &FfnOptions::fov)
      .field("deltas", &FfnOptions::deltas)
      .field("seed", &FfnOptions::seed)
      .field("compute", &FfnOptions::compute)
      .field("parallel", &FfnOptions::parallel)
      .field("kernel", &FfnOptions::kernel)
      .def("layout", [](const FfnOptions& options) { return layout_of(nn::parameter_layout(options)); })
      .def("parameter_count", [](const FfnOptions& options) { return nn::parameter_layout(options).size(); })
      .def("training_bytes", py::overload_cast<const FfnOptions&, const Vec3&, std::int64_t, int>(&nn::training_bytes),
           py::arg("size"), py::arg("examples"), py::arg("threads"),
           "Return the bytes of activations and gradients of training passes.");
  py::class_<Ffn, nn::Network>(m, "Ffn", "A flood-filling network; see floodtide.nn.FFN.")
      .def(py::init<const FfnOptions&>(), py::arg("options"))
      .def_property_readonly("options", [](const Ffn& self) { return self.options(); })  // a copy
      .def("fft_unsupported", &Ffn::fft_unsupported, py::arg("size"),
           "Return why forward passes cannot use Fourier transforms for this image size; empty if they can.")
      .def("forward", &forward, py::arg("image"), py::arg("logits"), py::arg("by") = py::none(),
           "Return the updated logits, computed by `layers` or `fft`; None: as training passes do.")
      .def("loss_and_gradients", &loss_and_gradients, py::arg("image"), py::arg("logits"), py::arg("labels"),
           py::arg("weights"), py::arg("gradients"), py::arg("scale"),
           "Return the losses of the examples, and add scale times the gradient of their sum to `gradients`.")
      .def(
          "relu_masks", [](const Ffn& network) { return to_numpy(network.relu_masks()); },
          "Return 1 for each positive ReLU input of the last loss_and_gradients, else 0: (2 * depth, z, y, x, features).");
  m.def(
      "masked_crc32c", [](const py::bytes& content) { return masked_crc32c(content); }, py::arg("content"),
      "Return the CRC-32C of bytes in the form that TensorFlow stores.");
}

}  // namespace floodtide::bindings
