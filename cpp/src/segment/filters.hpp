// SPDX-License-Identifier: Apache-2.0
// Image filters with the same results as scipy.ndimage, bit for bit. This is needed to reproduce published seeds: a seed that
// moves by one voxel changes later objects. Lines are filtered in double, and stored in float after every axis. Beyond its
// borders, the image is mirrored, and the border voxel is repeated (mode "reflect").
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// The axes along which a filter works, in ascending order.
using Axes = std::span<const std::size_t>;
inline constexpr std::array<std::size_t, 3> kVolume{0, 1, 2};
inline constexpr std::array<std::size_t, 2> kPlanes{1, 2};  ///< each plane z is a separate image

/// Return the square root of the summed squares of the Sobel derivatives along the axes.
/// Source: scipy.ndimage.generic_gradient_magnitude(image, sobel) of a float32 image.
[[nodiscard]] Tensor<float, 3> sobel_magnitude(View<const float, 3> image, Axes axes);

/// Return the image smoothed along the axes with a Gaussian that is cut off at 4 sigma. `sigma` is in voxels. Source:
/// scipy.ndimage.gaussian_filter(image, sigma) with float32 output.
[[nodiscard]] Tensor<float, 3> gaussian_filter(View<const float, 3> image, double sigma, Axes axes);

}  // namespace floodtide::segment
