// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/train/sample_walkers.hpp"
#include "floodtide/train/segmentation_scores.hpp"
#include "unlocked.hpp"

namespace floodtide::bindings {
namespace {

py::dict scores_dict(const train::SampleScores& scores) {
  py::dict result;
  result["samples"] = scores.samples;
  result["cross_entropy"] = scores.cross_entropy;
  result["dice"] = scores.dice;
  std::vector<double> everywhere;  // a trivial predictor for comparison
  std::vector<std::vector<std::int64_t>> confusion;
  const std::int64_t classes = scores.dice.classes();
  for (std::int64_t truth = 0; truth < classes; ++truth) {
    everywhere.push_back(scores.dice.everywhere(truth));
    std::vector<std::int64_t>& row = confusion.emplace_back();
    for (std::int64_t predicted = 0; predicted < classes; ++predicted) row.push_back(scores.dice.confusion(truth, predicted));
  }
  result["dice_everything"] = everywhere;
  result["confusion"] = confusion;
  py::list channels;
  for (const evaluate::VoxelCounts& channel : scores.binary_channels) {
    py::dict row;
    row["average_precision"] = channel.average_precision();
    row["share_of_ones"] =
        channel.voxels() > 0 ? static_cast<double>(channel.object_voxels()) / static_cast<double>(channel.voxels()) : 0;
    // Boundaries are rare. The average precision of 1 - affinity shows how well they are found.
    row["boundary_average_precision"] = channel.background_average_precision();
    row["f1"] = channel.counts(0).scores().f1;
    row["mcc"] = channel.counts(0).scores().mcc;
    channels.append(row);
  }
  for (const train::SoftScores& channel : scores.soft_channels) {
    channels.append(py::dict(py::arg("mean_squared_error") = channel.mean_squared_error, py::arg("variance") = channel.variance,
                             py::arg("voxels") = channel.voxels));
  }
  result["channels"] = channels;
  return result;
}

}  // namespace

void register_sample_training(py::module_& m) {
  m.def(
      "sample_walkers",
      [](nn::SampleNetwork& network, const data::SampleSource& samples, const train::WalkersOptions& options,
         const nn::SegmentationLoss& loss)
          ->Typed<"floodtide._core.Walkers"> {
            return keeping(freed_unlocked(train::make_sample_walkers(network, samples, options, loss)), network, samples);
          },
      py::arg("network"), py::arg("samples"), py::arg("options"), py::arg("loss"));
  m.def(
      "score_segmentation",
      [](nn::SampleNetwork& network, const data::SampleSource& samples, comm::Communicator& communicator,
         const ProgressCallback& progress) -> Record {
        const Progress report_progress = progress_of(progress);
        const auto scores = without_lock([&] {
          return std::make_unique<train::SampleScores>(
              train::score_segmentation(network, samples, communicator, report_progress));
        });
        return scores_dict(*scores);
      },
      py::arg("network"), py::arg("samples"), py::arg("communicator"), py::arg("progress") = py::none(),
      "Return scores over the fixed samples of a source. Collective.");
}

}  // namespace floodtide::bindings
