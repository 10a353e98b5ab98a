// SPDX-License-Identifier: Apache-2.0
// Image filters that give what scipy.ndimage gives, bit for bit: seeds are compared with published ones, and a seed that
// moves by one voxel changes the objects that follow. Lines are filtered in double and stored in float after every axis;
// beyond the borders the image is mirrored with its border voxel repeated ("reflect").
#pragma once

#include <cstdint>

#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Root of the summed squares of the three Sobel derivatives.
/// Source: scipy.ndimage.generic_gradient_magnitude(image, sobel) of a float32 image.
[[nodiscard]] Tensor<float, 3> sobel_magnitude(View<const float, 3> image);

/// Gaussian smoothing, cut off at 4 sigma. Source: scipy.ndimage.gaussian_filter(image, sigma) with float32 output.
[[nodiscard]] Tensor<float, 3> gaussian_filter(View<const float, 3> image, double sigma);

/// Exact squared Euclidean distance of every voxel to the nearest voxel with mask != 0, 0 on those; -1 everywhere if there is
/// none. Throws Error(unsupported) if a side is longer than 26,754 voxels, where distances no longer fit.
/// Source: Meijster et al., "A general algorithm for computing distance transforms in linear time", 2000.
[[nodiscard]] Tensor<std::int32_t, 3> squared_distance(View<const std::uint8_t, 3> mask);

}  // namespace floodtide::segment
