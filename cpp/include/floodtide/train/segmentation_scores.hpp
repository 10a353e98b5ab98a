// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/data/patch_source.hpp"
#include "floodtide/evaluate/dice.hpp"
#include "floodtide/evaluate/voxel_metrics.hpp"
#include "floodtide/nn/sample_network.hpp"

namespace floodtide::train {

/// Errors of a channel whose targets are any number in [0, 1].
struct SoftScores {
  double mean_squared_error = 0;
  double variance = 0;  ///< of the targets: the mean squared error of the best constant
  std::int64_t voxels = 0;
};

/// Scores of a network on the fixed samples of a source, over all ranks.
struct SampleScores {
  evaluate::DiceCounts dice;                           ///< by group and class; for samples with classes
  std::vector<evaluate::VoxelCounts> binary_channels;  ///< those before Targets::soft_from(); for samples with targets
  std::vector<SoftScores> soft_channels;               ///< the others; for samples with targets
  double cross_entropy = 0;                            ///< nats, mean over the voxels (and channels) that count
  std::int64_t samples = 0;                            ///< number of samples
};

/// Return the scores of a network on the fixed samples of a source. Collective; every rank gets the whole result.
///
/// Rank r computes the samples r, r + size, ... The result does not depend on the number of ranks: counts are integers, and
/// other sums are float64 and are added in the order of the samples. If one rank fails, all ranks throw AgreedError. Throws
/// Error(invalid_argument) if there is no sample.
[[nodiscard]] SampleScores score_segmentation(nn::SampleNetwork& network, const data::PatchSource& samples,
                                              comm::Communicator& communicator, const Progress& progress = {});

}  // namespace floodtide::train
