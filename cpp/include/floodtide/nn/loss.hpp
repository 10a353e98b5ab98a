// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/tensor/view.hpp"

namespace floodtide::nn {

/// Mean over voxels of weight times the sigmoid cross-entropy of `logits` against soft `labels` in [0, 1]. The mean divides
/// by the number of voxels, not by the sum of weights, as google/ffn does. Sums in double, the same on any number of threads.
///
/// @param weights [z, y, x], or empty for ones
/// Throws Error(shape_mismatch) for unequal shapes or no voxels.
[[nodiscard]] double sigmoid_cross_entropy(View<const float, 3> logits, View<const float, 3> labels,
                                           View<const float, 3> weights);

}  // namespace floodtide::nn
