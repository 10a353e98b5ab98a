// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/tensor/view.hpp"

namespace floodtide::nn {

/// Return the mean over voxels of weight times sigmoid cross-entropy, in nats.
///
/// The mean divides by the number of voxels, not by the sum of weights, as in google/ffn. The sum is made in double and does
/// not depend on the number of threads.
///
/// @param logits  (z, y, x)
/// @param labels  (z, y, x) soft labels in [0, 1]
/// @param weights (z, y, x), or empty: all weights are 1
/// Throws Error(shape_mismatch) for unequal shapes or empty arrays.
[[nodiscard]] double sigmoid_cross_entropy(View<const float, 3> logits, View<const float, 3> labels,
                                           View<const float, 3> weights);

}  // namespace floodtide::nn
