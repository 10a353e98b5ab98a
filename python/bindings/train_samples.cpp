// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/train/segmentation_scores.hpp"
#include "floodtide/train/walkers.hpp"
#include "unlocked.hpp"

namespace floodtide::bindings {
namespace {

py::dict scores_dict(const train::SampleScores& scores) {
  std::vector<double> everywhere;  // a trivial predictor for comparison
  std::vector<std::vector<std::int64_t>> confusion;
  const std::int64_t classes = scores.dice.classes();
  for (std::int64_t truth = 0; truth < classes; ++truth) {
    everywhere.push_back(scores.dice.everywhere(truth));
    std::vector<std::int64_t>& row = confusion.emplace_back();
    for (std::int64_t predicted = 0; predicted < classes; ++predicted) row.push_back(scores.dice.confusion(truth, predicted));
  }
  py::list channels;
  for (const evaluate::VoxelCounts& channel : scores.binary_channels) {
    const auto ones = static_cast<double>(channel.object_voxels()), voxels = static_cast<double>(channel.voxels());
    // Boundaries are rare. The average precision of 1 - affinity shows how well they are found.
    channels.append(py::dict(py::arg("average_precision") = channel.average_precision(),
                             py::arg("share_of_ones") = voxels > 0 ? ones / voxels : 0,
                             py::arg("boundary_average_precision") = channel.background_average_precision(),
                             py::arg("f1") = channel.counts(0).scores().f1, py::arg("mcc") = channel.counts(0).scores().mcc));
  }
  for (const train::SoftScores& channel : scores.soft_channels) {
    channels.append(py::dict(py::arg("mean_squared_error") = channel.mean_squared_error, py::arg("variance") = channel.variance,
                             py::arg("voxels") = channel.voxels));
  }
  return py::dict(py::arg("samples") = scores.samples, py::arg("cross_entropy") = scores.cross_entropy,
                  py::arg("dice") = scores.dice, py::arg("dice_everything") = everywhere, py::arg("confusion") = confusion,
                  py::arg("channels") = channels);
}

}  // namespace

void register_sample_training(py::module_& m) {
  m.def(
      "sample_walkers",
      [](nn::SampleNetwork& network, const data::PatchSource& samples, const train::WalkersOptions& options,
         const nn::SegmentationLoss& loss)
          ->Typed<"floodtide._core.Walkers"> {
            return keeping(freed_unlocked(train::make_sample_walkers(network, samples, options, loss)), network, samples);
          },
      py::arg("network"), py::arg("samples"), py::arg("options"), py::arg("loss"));
  m.def(
      "score_segmentation",
      [](nn::SampleNetwork& network, const data::PatchSource& samples, comm::Communicator& communicator,
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
