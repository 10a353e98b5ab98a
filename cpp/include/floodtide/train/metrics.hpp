// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::train {

/// Sums over training steps. Compute ratios after the sum over ranks, because ranks may have different numbers of walkers.
struct Metrics {
  std::int64_t fovs = 0;           ///< fields of view, or images, computed
  std::int64_t examples = 0;       ///< examples started
  std::int64_t dropped = 0;        ///< fields of view whose gradients came too late and were dropped
  std::int64_t staleness_sum = 0;  ///< sum over the fields of view used: number of updates since their parameters were copied
  std::int64_t true_positive = 0;  ///< voxels; prediction and label count as object from probability 0.5
  std::int64_t false_positive = 0;
  std::int64_t false_negative = 0;
  std::int64_t true_negative = 0;
  double loss_sum = 0;   ///< sum of the mean losses of the fields of view
  double data_s = 0;     ///< seconds of waiting for examples, summed over ranks
  double compute_s = 0;  ///< seconds of forward and backward passes, summed over ranks
  double reduce_s = 0;   ///< seconds of the gradient allreduce, waiting for other ranks included, summed over ranks
  double update_s = 0;   ///< seconds of clipping and optimizer, summed over ranks
};

}  // namespace floodtide::train
