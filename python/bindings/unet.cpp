// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/nn/segmentation_loss.hpp"
#include "floodtide/nn/unet.hpp"
#include "options.hpp"

namespace floodtide::bindings {
namespace {

using nn::SegmentationLoss;
using nn::UNet;
using nn::UNetOptions;
using SumFunction = Typed<"collections.abc.Callable[[list[float]], collections.abc.Sequence[float]] | None">;

template <class T, std::size_t Rank>
View<const T, Rank> optional(const py::object& object, const std::string& what) {
  return object.is_none() ? View<const T, Rank>() : view_of<const T, Rank>(object, what);
}

nn::SegmentationTruth truth_of(const py::object& labels, const py::object& targets, const py::object& weights) {
  return {optional<std::uint8_t, 4>(labels, "labels"), optional<float, 5>(targets, "targets"),
          optional<float, 5>(weights, "weights")};
}

/// Return a report as {"loss", "dice", "cross_entropy", "counts": [(true positives, false positives, false negatives)]}, with
/// one entry of "counts" per class.
py::dict report_of(const nn::LossReport& report, std::int64_t classes) {
  py::list counts;
  for (std::int64_t k = 0; k < classes; ++k) {
    const nn::ClassCounts& of_class = report.counts[static_cast<std::size_t>(k)];
    counts.append(py::make_tuple(of_class.true_positives, of_class.false_positives, of_class.false_negatives));
  }
  return py::dict(py::arg("loss") = report.loss, py::arg("dice") = report.dice, py::arg("cross_entropy") = report.cross_entropy,
                  py::arg("counts") = counts);
}

/// Return a SumOverRanks that calls a Python function with a list of numbers. The function returns the list of sums.
nn::SumOverRanks sum_of(const SumFunction& function) {
  if (function.is_none()) return {};
  return [kept = std::make_shared<py::object>(function)](std::span<double> values) {  // may be copied without the lock
    const py::gil_scoped_acquire lock;
    const auto sums = (*kept)(std::vector<double>(values.begin(), values.end())).cast<std::vector<double>>();
    FLOODTIDE_REQUIRE(sums.size() == values.size(), shape_mismatch, "sum over ranks: ", sums.size(),
                      " numbers came back, expected ", values.size());
    std::ranges::copy(sums, values.begin());
  };
}

py::array_t<float> forward(UNet& network, const FloatArray& images) {
  const auto view = view_of<const float, 5>(images, "images");
  return to_numpy(without_lock([&] {
    Tensor<float, 5> out({view.shape(0), view.shape(1), view.shape(2), view.shape(3), network.options().classes});
    network.forward(view, out.view());
    return out;
  }));
}

Record loss_and_gradients(UNet& network, const FloatArray& images, const OptionalUInt8Array& labels,
                          const OptionalFloatArray& targets, const OptionalFloatArray& weights, const SegmentationLoss& loss,
                          int groups, const std::vector<std::uint64_t>& examples, const FloatArray& gradients, double scale,
                          const SumFunction& sum_over_ranks) {
  nn::SampleBatch batch{view_of<const float, 5>(images, "images"), truth_of(labels, targets, weights), groups, examples, {}};
  const auto gradients_view = view_of<float, 1>(gradients, "gradients");
  const nn::SumOverRanks sum = sum_of(sum_over_ranks);
  const auto report =
      without_lock([&] { return network.loss_and_gradients(batch, loss, gradients_view.span(), scale, {}, sum); });
  return report_of(report, network.options().classes);
}

Typed<"tuple[dict[str, typing.Any], numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32]]">
segmentation_loss(const SegmentationLoss& loss, const std::string& output, const FloatArray& logits,
                  const OptionalUInt8Array& labels, const OptionalFloatArray& targets, const OptionalFloatArray& weights,
                  const SumFunction& sum_over_ranks) {
  const auto view = view_of<const float, 5>(logits, "logits");
  const nn::SegmentationTruth truth = truth_of(labels, targets, weights);
  Tensor<float, 5> probabilities(view.shape()), gradient(view.shape());
  const nn::LossReport report = nn::segmentation_loss(loss, named<nn::Output>(output), view, truth, probabilities.view(),
                                                      gradient.view(), sum_of(sum_over_ranks));
  return py::make_tuple(report_of(report, view.shape(4)), to_numpy(std::move(probabilities)), to_numpy(std::move(gradient)));
}

void register_loss(py::module_& m) {
  Options<SegmentationLoss>(m, "SegmentationLoss", "See floodtide.nn.SegmentationLoss.", &nn::check)
      .field("dice", &SegmentationLoss::dice)
      .field("cross_entropy", &SegmentationLoss::cross_entropy)
      .field("focus", &SegmentationLoss::focus)
      .field("over_batch", &SegmentationLoss::over_batch)
      .field("background", &SegmentationLoss::background)
      .field("smooth", &SegmentationLoss::smooth);
  m.def(
      "loss_rows",
      []() -> Records {
        py::list rows;
        for (const nn::LossRow& row : nn::loss_rows()) {
          rows.append(py::dict(py::arg("name") = std::string(row.name), py::arg("help") = std::string(row.help),
                               py::arg("loss") = row.loss));
        }
        return rows;
      },
      "Return the rows of the registry of named losses.");
  m.def("segmentation_loss", &segmentation_loss, py::arg("loss"), py::arg("output"), py::arg("logits"), py::arg("labels"),
        py::arg("targets"), py::arg("weights"), py::arg("sum_over_ranks"),
        "Return (report, probabilities, gradient with respect to the logits).");
}

void register_options(py::module_& m) {
  Options<UNetOptions>(m, "UNetOptions", "Properties of a U-Net; see floodtide.nn.UNet.")
      .field("in_channels", &UNetOptions::in_channels)
      .field("classes", &UNetOptions::classes)
      .field("depth", &UNetOptions::depth)
      .field("features", &UNetOptions::features)
      .field("kernels", &UNetOptions::kernels)
      .field("pools", &UNetOptions::pools)
      .field("output", &UNetOptions::output)
      .field("batch_norm", &UNetOptions::batch_norm)
      .field("synchronised", &UNetOptions::synchronised)
      .field("dropout", &UNetOptions::dropout)
      .field("seed", &UNetOptions::seed)
      .field("compute", &UNetOptions::compute)
      .def("parameter_count", [](const UNetOptions& options) { return nn::parameter_layout(options).size(); })
      .def("training_bytes", py::overload_cast<const UNetOptions&, std::int64_t, const Vec3&>(&nn::training_bytes),
           py::arg("images"), py::arg("size"), "Return the bytes of activations and gradients of training passes.")
      .def("forward_bytes", &nn::forward_bytes, py::arg("images"), py::arg("size"),
           "Return the bytes of activations of forward passes.");
}

}  // namespace

void register_unet(py::module_& m) {
  register_loss(m);
  register_options(m);
  py::class_<UNet, nn::SampleNetwork>(m, "UNet", "A U-Net; see floodtide.nn.UNet.")
      .def(py::init<const UNetOptions&>(), py::arg("options"))
      .def_property_readonly("options", [](const UNet& self) { return self.options(); })  // a copy
      .def_property_readonly("total_pool", [](const UNet& self) { return triple_of(self.total_pool()); })
      .def("free_workspace", &UNet::free_workspace, py::call_guard<py::gil_scoped_release>(),
           "Free the memory that no pass uses now; the next pass plans its memory again.")
      .def("trained_size", [](const UNet& self) { return self.layout().trained_size(); })
      .def(
          "move_statistics",
          [](UNet& self, const FloatArray& gradients, double images) {
            const auto view = view_of<const float, 1>(gradients, "gradients");
            const py::gil_scoped_release unlocked;
            self.move_statistics(view.span(), images);
          },
          py::arg("gradients"), py::arg("images"))
      .def("forward", &forward, py::arg("images"))
      .def("loss_and_gradients", &loss_and_gradients, py::arg("images"), py::arg("labels"), py::arg("targets"),
           py::arg("weights"), py::arg("loss"), py::arg("groups"), py::arg("examples"), py::arg("gradients"), py::arg("scale"),
           py::arg("sum_over_ranks"), "Return the report, and add the gradients to `gradients`.");
}

}  // namespace floodtide::bindings
