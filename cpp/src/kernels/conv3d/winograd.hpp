// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Interface of the Winograd kernels: their tasks and function pointers. Plain data only, because instruction-set files include
// nothing else.
namespace floodtide::kernels::winograd {

/// A volume split into tiles of output voxels. The index of a tile is (z * tiles_y + y) * tiles_x + x. A tile at the end of the
/// volume may extend beyond it: it reads zeros there, and its results there are dropped.
struct Tiling {
  std::int64_t z, y, x;                 ///< sizes without the halo
  std::int64_t tile_z, tile_y, tile_x;  ///< output voxels of a tile along each axis: 1 if the kernel has size 1, else 2 or 3
  std::int64_t tiles_z, tiles_y, tiles_x;
};

constexpr std::int64_t kernel_extent(std::int64_t tile) { return tile == 1 ? 1 : 3; }
constexpr std::int64_t points(std::int64_t tile) { return tile + kernel_extent(tile) - 1; }
constexpr std::int64_t points(const Tiling& t) { return points(t.tile_z) * points(t.tile_y) * points(t.tile_x); }

/// Task: compute some tiles of out = conv(f(input)) + bias, then apply mask, residual and final ReLU, if given. Backward-data
/// is the same with flipped, transposed weights.
struct ForwardTask {
  Tiling tiling;
  std::int64_t in_channels, out_channels;  ///< multiples of 16
  std::int64_t tile_begin, tile_end;
  const float* input;
  const float* weights;   ///< transformed, see Kernels::transform_weights
  const float* bias;      ///< [out_channels]
  const float* mask;      ///< the sum becomes 0 where the mask is not positive; layout of the output; may be null
  const float* residual;  ///< added after the mask; layout of the output; may be null, may be `out`
  float* out;
  bool relu_input, relu_output;
  float* scratch;  ///< forward_scratch_floats() floats
};

/// Task: compute the contribution of some tiles to the weight gradient, before the inverse transform, and to the bias gradient.
struct WeightsTask {
  Tiling tiling;
  std::int64_t in_channels, out_channels;
  std::int64_t tile_begin, tile_end;
  const float* input;
  const float* output_grad;
  float* products;   ///< [points][in_channels][out_channels]; overwritten
  float* bias_grad;  ///< [out_channels]; overwritten
  bool relu_input;
  float* scratch;  ///< weights_scratch_floats() floats
};

/// Task: multiply one point of a block of tiles that WeightsTask has transformed.
struct MultiplyTask {
  Tiling tiling;
  std::int64_t in_channels, out_channels;
  std::int64_t tiles;  ///< number of tiles in the block
  std::int64_t point;
  const float* scratch;  ///< of the WeightsTask
  bool first;            ///< true: `products` is overwritten; false: the result is added
  float* products;       ///< [points][in_channels][out_channels]
};

/// Functions of one instruction-set file. Weights are [kernel_z, kernel_y, kernel_x][in][out].
struct Kernels {
  std::int64_t forward_tiles;  ///< number of tiles that forward transforms and multiplies together: a few register blocks
  std::int64_t weights_tiles;  ///< the same for backward-weights; a larger number saves loads and stores of the sums
  /// Transforms the weights of the input channels from in_begin to in_end. The result is
  /// [point][group of outputs][in][channels of the group].
  void (*transform_weights)(const Tiling& tiling, const float* weights, std::int64_t in, std::int64_t out,
                            std::int64_t in_begin, std::int64_t in_end, float* out_transformed);
  /// Transforms the sum of `parts` arrays [points][in][out], which are `part_floats` floats apart, to weight gradients, and
  /// adds them to `out_weight_grad`. Only the input channels from in_begin to in_end are transformed. The sums overwrite the
  /// first array.
  void (*transform_products)(const Tiling& tiling, float* products, std::int64_t parts, std::int64_t part_floats,
                             std::int64_t in, std::int64_t out, std::int64_t in_begin, std::int64_t in_end,
                             float* out_weight_grad);
  void (*forward)(const ForwardTask& task);
  void (*weights)(const WeightsTask& task);
  /// The two parts of `weights` for at most weights_tiles tiles. transform_tiles does not need `products`.
  void (*transform_tiles)(const WeightsTask& task);
  void (*multiply_point)(const MultiplyTask& task);
};

extern const Kernels kAvx2;
extern const Kernels kAvx512;

/// Return the distance of two points in the scratch memory, in floats. It is an odd number of cache lines, because with a power
/// of two all points would share few sets of the cache.
constexpr std::int64_t point_stride(std::int64_t tiles, std::int64_t channels) {
  const std::int64_t lines = (tiles * channels + 15) / 16;
  return (lines + 1 - lines % 2) * 16;
}
constexpr std::int64_t transformed_floats(const Tiling& t, std::int64_t tiles, std::int64_t channels) {
  return points(t) * point_stride(tiles, channels);
}
/// Return the size of the ring of positions that the transform along x reads: 16 channels of every point of a tile.
constexpr std::int64_t ring_floats(const Tiling& t) { return points(t) * 16; }
constexpr std::int64_t forward_scratch_floats(const Tiling& t, const Kernels& kernels, std::int64_t in, std::int64_t out) {
  return ring_floats(t) + transformed_floats(t, kernels.forward_tiles, in > out ? in : out);
}
constexpr std::int64_t weights_scratch_floats(const Tiling& t, const Kernels& kernels, std::int64_t in, std::int64_t out) {
  return ring_floats(t) + transformed_floats(t, kernels.weights_tiles, in) + transformed_floats(t, kernels.weights_tiles, out);
}

}  // namespace floodtide::kernels::winograd
