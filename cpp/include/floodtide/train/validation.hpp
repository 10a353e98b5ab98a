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

/// Outcome for the voxels of one centre, at probability 0.5.
struct CentreOutcome {
  double cross_entropy_sum = 0;  ///< nats, over the voxels
  std::int64_t voxels = 0;
  evaluate::BinaryCounts counts;
};

/// The network on one fixed set of centres, pooled over all of them and all ranks.
struct ValidationResult {
  evaluate::VoxelCounts first_pass;               ///< the field of view around each centre after one pass from a fresh seed
  evaluate::VoxelCounts moves;                    ///< the whole patch after the `fixed` moves
  std::int64_t moves_made = 0;                    ///< network passes, the first ones included
  std::vector<CentreOutcome> first_pass_centres;  ///< one a centre, in the order of the centres: for bootstrap intervals
  std::vector<CentreOutcome> moves_centres;
};

/// Runs the protocol of docs/algorithms.md, "Validation": for each centre one pass from a fresh seed, then the `fixed` moves.
/// Rank r takes the centres r, r + size, ...; sums are exact, so the result does not depend on the number of ranks.
/// Collective. Every rank gets the whole result. Throws on all ranks if one fails.
[[nodiscard]] ValidationResult validate(nn::Ffn& network, const data::Source& source, const std::vector<data::Centre>& centres,
                                        const flood::TrainingFloodOptions& options, double softness, std::uint64_t seed,
                                        comm::Communicator& communicator, const Progress& progress = {});

}  // namespace floodtide::train
