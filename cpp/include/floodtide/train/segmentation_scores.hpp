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

/// What a U-Net makes of the fixed samples of a source, over all ranks.
struct SampleScores {
  evaluate::DiceCounts dice;                      ///< of each patient and class; for labelled samples
  std::vector<evaluate::VoxelCounts> affinities;  ///< one a channel; for samples with targets
  double cross_entropy = 0;                       ///< nats, mean over pixels that count
  std::int64_t samples = 0;
};

/// Rank r takes the samples r, r + size, ... one by one; counts are integers and other sums have one order, so the result does
/// not depend on the number of ranks. Collective. Every rank gets the whole result. Throws on all ranks if one fails,
/// Error(invalid_argument) if there is no sample.
[[nodiscard]] SampleScores score_segmentation(nn::UNet& network, const data::SampleSource& samples,
                                              comm::Communicator& communicator, const Progress& progress = {});

}  // namespace floodtide::train
