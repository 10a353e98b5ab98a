// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What the Winograd kernels are given and how they are reached. Plain data: this is all that an instruction-set file sees.
namespace floodtide::kernels::winograd {

/// A volume cut into tiles of output voxels, numbered (z * tiles_y + y) * tiles_x + x. A tile that reaches over the volume's
/// end reads zeros there, and what it computes there is dropped.
struct Tiling {
  std::int64_t z, y, x;                 ///< interior extents
  std::int64_t tile_z, tile_y, tile_x;  ///< output voxels of a tile: 1 where the kernel has one element, else 2 or 3
  std::int64_t tiles_z, tiles_y, tiles_x;
};

constexpr std::int64_t kernel_extent(std::int64_t tile) { return tile == 1 ? 1 : 3; }
constexpr std::int64_t points(std::int64_t tile) { return tile + kernel_extent(tile) - 1; }
constexpr std::int64_t points(const Tiling& t) { return points(t.tile_z) * points(t.tile_y) * points(t.tile_x); }

/// Some tiles of out = conv(f(input)) + bias, then the mask, the residual and the final ReLU, each where given. Backward-data
/// is the same with flipped, transposed weights.
struct ForwardTask {
  Tiling tiling;
  std::int64_t in_channels, out_channels;  ///< as stored: multiples of 16
  std::int64_t tile_begin, tile_end;
  const float* input;
  const float* weights;   ///< transformed, see Kernels::transform_weights
  const float* bias;      ///< [out_channels]
  const float* mask;      ///< zero the sum where it is not positive; output's layout; may be null
  const float* residual;  ///< added after the mask; output's layout; may be null, may be `out`
  float* out;
  bool relu_input, relu_output;
  float* scratch;  ///< forward_scratch_floats
};

/// The share of some tiles in the weight gradient, before its transform.
struct WeightsTask {
  Tiling tiling;
  std::int64_t in_channels, out_channels;
  std::int64_t tile_begin, tile_end;
  const float* input;
  const float* output_grad;
  float* products;   ///< [points][in_channels][out_channels]: overwritten
  float* bias_grad;  ///< [out_channels]: overwritten
  bool relu_input;
  float* scratch;  ///< weights_scratch_floats
};

/// What an instruction-set file exports. Weights are [kernel_z, kernel_y, kernel_x][in][out].
struct Kernels {
  std::int64_t forward_tiles;  ///< tiles that forward transforms and multiplies together: a few register blocks
  std::int64_t weights_tiles;  ///< and backward-weights, which adds up over them: many spare loads and stores of sums
  /// To [point][group of outputs][in][channels of the group], some input channels.
  void (*transform_weights)(const Tiling& tiling, const float* weights, std::int64_t in, std::int64_t out,
                            std::int64_t in_begin, std::int64_t in_end, float* out_transformed);
  /// From the sum of `parts` arrays [points][in][out], `part_floats` apart, some input channels: weight_grad is added to.
  void (*transform_products)(const Tiling& tiling, const float* products, std::int64_t parts, std::int64_t part_floats,
                             std::int64_t in, std::int64_t out, std::int64_t in_begin, std::int64_t in_end,
                             float* out_weight_grad);
  void (*forward)(const ForwardTask& task);
  void (*weights)(const WeightsTask& task);
};

extern const Kernels kAvx2;
extern const Kernels kAvx512;

/// Floats from one point's products to the next in the scratch memory: an odd number of cache lines, because a power of two
/// would map all points to few sets of the cache.
constexpr std::int64_t point_stride(std::int64_t tiles, std::int64_t channels) {
  const std::int64_t lines = (tiles * channels + 15) / 16;
  return (lines + 1 - lines % 2) * 16;
}
constexpr std::int64_t transformed_floats(const Tiling& t, std::int64_t tiles, std::int64_t channels) {
  return points(t) * point_stride(tiles, channels);
}
/// One vector of 16 channels of every point of a tile: the ring of positions that a transform along x reads.
constexpr std::int64_t ring_floats(const Tiling& t) { return points(t) * 16; }
constexpr std::int64_t forward_scratch_floats(const Tiling& t, const Kernels& kernels, std::int64_t in, std::int64_t out) {
  return ring_floats(t) + transformed_floats(t, kernels.forward_tiles, in > out ? in : out);
}
constexpr std::int64_t weights_scratch_floats(const Tiling& t, const Kernels& kernels, std::int64_t in, std::int64_t out) {
  return ring_floats(t) + transformed_floats(t, kernels.weights_tiles, in) + transformed_floats(t, kernels.weights_tiles, out);
}

}  // namespace floodtide::kernels::winograd
