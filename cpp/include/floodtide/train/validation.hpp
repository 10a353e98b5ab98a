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

namespace floodtide::train {

/// Cross-entropy and confusion counts of the voxels around one centre, with voxels from probability 0.5 counted as object.
struct CentreOutcome {
  double cross_entropy_sum = 0;  ///< nats, over the voxels
  std::int64_t voxels = 0;
  evaluate::BinaryCounts counts;
};

/// Result of a validation on a fixed set of centres, over all centres and all ranks.
struct ValidationResult {
  evaluate::VoxelCounts first_pass;               ///< field of view around each centre, after one pass from a new seed
  evaluate::VoxelCounts moves;                    ///< whole patch around each centre, after all `fixed` moves
  std::int64_t moves_made = 0;                    ///< number of network passes, first passes included
  std::vector<CentreOutcome> first_pass_centres;  ///< one per centre, in the order of the centres, for bootstrap intervals
  std::vector<CentreOutcome> moves_centres;       ///< one per centre, as above
};

/// Validate a network: for each centre, run one pass from a new seed, then the `fixed` moves. Collective.
///
/// Rank r computes the centres r, r + size, ... Sums are exact, so that the result does not depend on the number of ranks.
/// Every rank gets the whole result. If one rank fails, all ranks throw AgreedError. Source: docs/algorithms.md, "Validation".
[[nodiscard]] ValidationResult validate(nn::Ffn& network, const data::Source& source, const std::vector<data::Centre>& centres,
                                        const flood::TrainingFloodOptions& options, double softness, std::uint64_t seed,
                                        comm::Communicator& communicator, const Progress& progress = {});

}  // namespace floodtide::train
