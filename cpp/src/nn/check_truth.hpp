// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/nn/segmentation_loss.hpp"

namespace floodtide::nn {

/// Throws Error(shape_mismatch) if the truth does not fit outputs of this shape [n, z, y, x, classes], and
/// Error(invalid_argument) for a label that is neither a class nor kNotCounted. Messages begin with `who`.
void check_truth(const char* who, Output output, const Shape<5>& shape, const SegmentationTruth& truth);

}  // namespace floodtide::nn
