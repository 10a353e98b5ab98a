// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "floodtide/data/patch_source.hpp"
#include "floodtide/nn/sample_network.hpp"
#include "floodtide/train/walkers.hpp"

namespace floodtide::train {

/// Make walkers that train a network on the samples of their shards.
///
/// In each pass, each walker computes `batch` samples (an option of the source). The samples of a walker are one group of batch
/// normalisation. `network` and `samples` must outlive the walkers.
///
/// Throws Error(invalid_argument) for options outside their ranges, for another number of walkers than in `samples`, and if
/// only one of samples and network uses classes. Throws Error(shape_mismatch) if the samples do not fit the network.
[[nodiscard]] std::unique_ptr<Walkers> make_sample_walkers(nn::SampleNetwork& network, const data::PatchSource& samples,
                                                           const WalkersOptions& options, const nn::SegmentationLoss& loss);

}  // namespace floodtide::train
