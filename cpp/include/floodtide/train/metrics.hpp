// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::train {

/// Sums over training steps. Counts are reduced over ranks, ratios never: ranks may have different numbers of walkers.
struct Metrics {
  std::int64_t fovs = 0;           ///< fields of view: one a walker and step
  std::int64_t examples = 0;       ///< examples begun
  std::int64_t dropped = 0;        ///< fields of view whose gradients came too late for any update
  std::int64_t staleness_sum = 0;  ///< of the fields of view used: updates since the parameters they saw
  std::int64_t true_positive = 0;  ///< voxels, updated logits against labels at probability 0.5
  std::int64_t false_positive = 0;
  std::int64_t false_negative = 0;
  std::int64_t true_negative = 0;
  double loss_sum = 0;   ///< of the mean losses of the fields of view
  double data_s = 0;     ///< seconds that the ranks waited for examples, summed over ranks
  double compute_s = 0;  ///< seconds of forward and backward, summed over ranks
  double reduce_s = 0;   ///< seconds in the gradient allreduce (also waiting for other ranks), summed over ranks
  double update_s = 0;   ///< seconds of clipping and optimizer, summed over ranks
};

}  // namespace floodtide::train
