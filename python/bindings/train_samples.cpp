// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <memory>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/train/sample_walkers.hpp"
#include "floodtide/train/segmentation_scores.hpp"
#include "unlocked.hpp"

namespace floodtide::bindings {
namespace {

/// Return the Dice score of each class if the class were predicted everywhere. Scores are compared with this trivial predictor.
std::vector<double> dice_everything(const evaluate::DiceCounts& dice) {
  constexpr std::int64_t kCounts = 3;  // both, predicted, true
  std::vector<double> pixels(static_cast<std::size_t>(dice.classes()), 0.0);
  double all = 0;
  for (std::int64_t i = 2; i < std::ssize(dice.values()); i += kCounts) {
    const auto truth = static_cast<double>(dice.values()[static_cast<std::size_t>(i)]);
    pixels[static_cast<std::size_t>(i / kCounts % dice.classes())] += truth;
    all += truth;
  }
  for (double& value : pixels) value = all > 0 ? 2 * value / (all + value) : 0;
  return pixels;
}

py::dict scores_dict(const train::SampleScores& scores) {
  py::dict result;
  result["samples"] = scores.samples;
  result["cross_entropy"] = scores.cross_entropy;
  result["dice"] = scores.dice;
  result["dice_everything"] = dice_everything(scores.dice);
  py::list affinities;
  for (const evaluate::VoxelCounts& channel : scores.affinities) {
    py::dict row;
    row["average_precision"] = channel.average_precision();
    row["share_of_ones"] =
        channel.voxels() > 0 ? static_cast<double>(channel.object_voxels()) / static_cast<double>(channel.voxels()) : 0;
    // Boundaries are rare. The average precision of 1 - affinity shows how well they are found.
    row["boundary_average_precision"] = channel.background_average_precision();
    row["f1"] = channel.counts(0).scores().f1;
    row["mcc"] = channel.counts(0).scores().mcc;
    affinities.append(row);
  }
  result["affinities"] = affinities;
  return result;
}

}  // namespace

void register_sample_training(py::module_& m) {
  m.def(
      "sample_walkers",
      [](nn::UNet& network, const data::SampleSource& samples, const train::WalkersOptions& options,
         const nn::SegmentationLoss& loss)
          ->Typed<"floodtide._core.Walkers"> {
            return keeping(freed_unlocked(train::make_sample_walkers(network, samples, options, loss)), network, samples);
          },
      py::arg("network"), py::arg("samples"), py::arg("options"), py::arg("loss"));
  m.def(
      "score_segmentation",
      [](nn::UNet& network, const data::SampleSource& samples, comm::Communicator& communicator,
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
