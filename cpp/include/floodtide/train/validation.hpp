// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/data/patches.hpp"
#include "floodtide/evaluate/voxel_metrics.hpp"
#include "floodtide/flood/training_flood.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::train {

/// Result of a validation on a fixed set of centres, over all centres and all ranks.
struct ValidationResult {
  evaluate::VoxelCounts first_pass;  ///< field of view around each centre, after one pass from a new seed
  evaluate::VoxelCounts moves;       ///< whole patch around each centre, after all `fixed` moves
  std::int64_t moves_made = 0;       ///< number of network passes, first passes included
  /// One row per centre, in the order of the centres, for bootstrap intervals: sum of the cross-entropies of the voxels in
  /// nats, number of voxels, then true positive, false positive, false negative and true negative voxels at probability 0.5.
  Tensor<double, 2> first_pass_centres;
  Tensor<double, 2> moves_centres;
};

/// Validate a network: for each centre, run one pass from a new seed, then the `fixed` moves. Collective.
///
/// Rank r computes the centres r, r + size, ... Sums are exact, so that the result does not depend on the number of ranks.
/// Every rank gets the whole result. If one rank fails, all ranks throw AgreedError. Source: docs/algorithms.md, "Validation".
[[nodiscard]] ValidationResult validate(nn::Ffn& network, const data::Source& source, const std::vector<data::Centre>& centres,
                                        const flood::TrainingFloodOptions& options, double softness, std::uint64_t seed,
                                        comm::Communicator& communicator, const Progress& progress = {});

}  // namespace floodtide::train
