// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/data/samples.hpp"
#include "floodtide/evaluate/dice.hpp"
#include "floodtide/evaluate/voxel_metrics.hpp"
#include "floodtide/nn/unet.hpp"

namespace floodtide::train {

/// Scores of a U-Net on the fixed samples of a source, over all ranks.
struct SampleScores {
  evaluate::DiceCounts dice;                      ///< by patient and class; for samples with classes
  std::vector<evaluate::VoxelCounts> affinities;  ///< one per channel; for samples with targets
  double cross_entropy = 0;                       ///< nats, mean over the pixels that count
  std::int64_t samples = 0;                       ///< number of samples
};

/// Return the scores of a U-Net on the fixed samples of a source. Collective; every rank gets the whole result.
///
/// Rank r computes the samples r, r + size, ... The result does not depend on the number of ranks: counts are integers, and
/// cross-entropies are added in the order of the samples. If one rank fails, all ranks throw AgreedError. Throws
/// Error(invalid_argument) if there is no sample.
[[nodiscard]] SampleScores score_segmentation(nn::UNet& network, const data::SampleSource& samples,
                                              comm::Communicator& communicator, const Progress& progress = {});

}  // namespace floodtide::train
