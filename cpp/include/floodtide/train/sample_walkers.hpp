// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "floodtide/data/samples.hpp"
#include "floodtide/nn/segmentation_loss.hpp"
#include "floodtide/nn/unet.hpp"
#include "floodtide/train/walkers.hpp"

namespace floodtide::train {

/// Walkers that show a U-Net the samples of their shard: the source's `batch` of each walker a pass. Walkers are groups of the
/// network's batch normalisation. References must outlive them. Throws Error(invalid_argument) if there are fewer walkers than
/// ranks or another number than the source's, Error(shape_mismatch) if the samples do not fit the network.
[[nodiscard]] std::unique_ptr<Walkers> make_sample_walkers(nn::UNet& network, const data::SampleSource& samples,
                                                           const WalkersOptions& options, const nn::SegmentationLoss& loss);

}  // namespace floodtide::train
