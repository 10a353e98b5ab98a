// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::kernels {

inline constexpr std::int64_t kChannelMultiple = 16;  ///< stored channels are a multiple of the floats in an AVX-512 register
constexpr std::int64_t stored_channels(std::int64_t channels) {
  return (channels + kChannelMultiple - 1) / kChannelMultiple * kChannelMultiple;
}

/// Sizes of a 3-D convolution with stride 1 and zero padding ("SAME": output and input have the same extents).
struct Conv3dShape {
  std::int64_t z, y, x;                                   ///< sizes without the halo in voxels, at least 1
  std::int64_t in_channels, out_channels;                 ///< at least 1; stored with zero padding up to stored_channels()
  std::int64_t kernel_z = 3, kernel_y = 3, kernel_x = 3;  ///< 1 or 3 each: the halo is one voxel wide

  [[nodiscard]] constexpr std::int64_t stored_in() const { return stored_channels(in_channels); }
  [[nodiscard]] constexpr std::int64_t stored_out() const { return stored_channels(out_channels); }
  [[nodiscard]] constexpr std::int64_t taps() const { return kernel_z * kernel_y * kernel_x; }
  [[nodiscard]] constexpr std::int64_t weight_count() const { return taps() * in_channels * out_channels; }
};

/// Return the number of floats of an activation with `channels` stored channels.
///
/// An activation has a halo of one voxel on each side. Element (z, y, x, c) of the interior is at
/// ((z + 1) * (Y + 2) + (y + 1)) * (X + 2) * C + (x + 1) * C + c. The halo and the padding channels are zero.
constexpr std::int64_t activation_size(std::int64_t z, std::int64_t y, std::int64_t x, std::int64_t channels) {
  return (z + 2) * (y + 2) * (x + 2) * channels;
}
/// Return the offset of channel 0 of a voxel in an activation with `channels` stored channels.
constexpr std::int64_t activation_offset(const Conv3dShape& shape, std::int64_t channels, std::int64_t z, std::int64_t y,
                                         std::int64_t x) {
  return (((z + 1) * (shape.y + 2) + (y + 1)) * (shape.x + 2) + (x + 1)) * channels;
}

}  // namespace floodtide::kernels
