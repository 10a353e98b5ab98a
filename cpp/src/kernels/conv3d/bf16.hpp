// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Interface of the kernels with bfloat16 operands and float sums: their tasks and function pointers. Plain data only, because
// instruction-set files include nothing else.
namespace floodtide::kernels::bf16 {

inline constexpr std::int64_t kPanel = 16;  // output channels in a panel of weights or gradients, and pairs in a full tile
inline constexpr std::int64_t kTile = 32;   // bfloat16 numbers in a row of a tile: 16 pairs

constexpr std::int64_t round_up(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Sizes of an activation with its halo. Positions of a plane are counted along its rows, from the first voxel of the interior
/// to the last one, and include the halo between two rows. So a plane is one long row, and a step to a neighbour has the same
/// distance everywhere.
struct Plane {
  std::int64_t z, y, x;                       ///< sizes without the halo
  std::int64_t kernel_z, kernel_y, kernel_x;  ///< 1 or 3

  [[nodiscard]] constexpr std::int64_t row() const { return x + 2; }
  [[nodiscard]] constexpr std::int64_t voxels() const { return (y + 2) * row(); }
  [[nodiscard]] constexpr std::int64_t first() const { return row() + 1; }  ///< voxel of the plane that is position 0
  [[nodiscard]] constexpr std::int64_t positions() const { return y * row() - 2; }
  [[nodiscard]] constexpr std::int64_t rows_of_kernel() const { return kernel_z * kernel_y; }
  [[nodiscard]] constexpr std::int64_t taps() const { return kernel_z * kernel_y * kernel_x; }
};

// ---- Forward and backward-data --------------------------------------------------------------------------------------

/// The channels of the voxels that a kernel row needs are adjacent in memory, so that they are one sum of
/// kernel_x * channels products. Pairs of this sum are multiplied together.
constexpr std::int64_t row_pairs(std::int64_t kernel_x, std::int64_t channels) { return (kernel_x * channels + 1) / 2; }
/// Return the number of pairs that weights are stored for. The others are zero.
constexpr std::int64_t stored_pairs(std::int64_t kernel_x, std::int64_t channels) {
  return round_up(row_pairs(kernel_x, channels), kTile / 2);
}
/// Return the bfloat16 numbers of packed weights: [panel of outputs][kz, ky][pair][output of the panel][2].
constexpr std::int64_t packed_weights(const Plane& p, std::int64_t channels, std::int64_t stored_out) {
  return stored_out * p.rows_of_kernel() * stored_pairs(p.kernel_x, channels) * 2;
}
/// Return the channels of a voxel of the converted input.
constexpr std::int64_t converted_channels(std::int64_t channels) { return round_up(channels, 2); }
/// Return the bfloat16 numbers of a converted input. Blocks read beyond the last voxel.
constexpr std::int64_t beyond_input(std::int64_t channels) { return 64 * channels + 2 * kTile; }
constexpr std::int64_t converted_input(const Plane& p, std::int64_t channels) {
  return (p.z + 2) * p.voxels() * channels + beyond_input(channels);
}

/// Task: convert voxels of an activation, from voxel_begin to voxel_end (the halo counts).
struct ConvertTask {
  std::int64_t voxel_begin, voxel_end;
  std::int64_t stored, channels;  ///< channels of a voxel of the input, a multiple of 16, and of the output
  const float* input;
  std::uint16_t* out;
  bool relu;
};

/// Task: pack the weights [tap][in][out] of a kernel row.
struct PackTask {
  Plane plane;
  std::int64_t in, out, kernel_row;
  const float* weights;
  std::uint16_t* packed;  ///< of all kernel rows
};

/// Task: compute blocks of positions of out = conv(input) + bias, then apply mask, residual and final ReLU, if given.
/// Backward-data is the same with flipped, transposed weights. The index of a block is z * blocks of a plane + block.
struct ForwardTask {
  Plane plane;
  std::int64_t channels;    ///< of a voxel of the converted input
  std::int64_t stored_out;  ///< multiple of 16
  std::int64_t block_begin, block_end;
  const std::uint16_t* input;  ///< converted activation
  const std::uint16_t* weights;
  const float* bias;      ///< [stored_out]
  const float* mask;      ///< the sum becomes 0 where the mask is not positive; layout of the output; may be null
  const float* residual;  ///< added after the mask; layout of the output; may be null, may be `out`
  float* out;             ///< activation
  bool relu_output;
};

// ---- Backward-weights -----------------------------------------------------------------------------------------------

inline constexpr std::int64_t kSegment = 384;  ///< positions whose products are summed together, so that they stay in L1

constexpr std::int64_t segments(const Plane& p) { return (p.positions() + kSegment - 1) / kSegment; }
constexpr std::int64_t padded_positions(const Plane& p) { return round_up(p.positions(), kTile); }
/// Return the distance of two channels of a plane of transposed inputs. It is an odd number of cache lines.
constexpr std::int64_t channel_stride(const Plane& p) {
  const std::int64_t lines = (padded_positions(p) + 2 * (p.row() + 1) + kTile - 1) / kTile;
  return (lines + 1 - lines % 2) * kTile;
}
/// Return the bfloat16 numbers of transposed inputs: [plane of the halo and the interior][channel][voxel of the plane].
constexpr std::int64_t transposed_input(const Plane& p, std::int64_t stored_in) {
  return (p.z + 2) * stored_in * channel_stride(p);
}
/// Return the bfloat16 numbers of paired gradients: [plane][panel of outputs][pair of positions][output of the panel][2].
constexpr std::int64_t paired_gradients(const Plane& p, std::int64_t stored_out) {
  return p.z * stored_out * padded_positions(p);
}

/// Task: convert and transpose the voxels of a plane from voxel_begin to voxel_end, multiples of 32 up to channel_stride().
struct TransposeTask {
  Plane plane;
  std::int64_t z;  ///< 0 is the plane of the halo
  std::int64_t voxel_begin, voxel_end;
  std::int64_t stored;
  const float* input;
  std::uint16_t* out;
  bool relu;
};

/// Task: convert the gradients of a segment to pairs of positions. The index of a segment is z * segments() + segment.
struct PairTask {
  Plane plane;
  std::int64_t segment, stored;
  const float* output_grad;
  std::uint16_t* out;
  float* bias_grad;  ///< [stored], the sum over this segment; overwritten
};

/// Task: compute the products of some segments, for the output channels from out_begin to out_end.
struct WeightsTask {
  Plane plane;
  std::int64_t stored_in, stored_out;
  std::int64_t out_begin, out_end;  ///< multiples of 16
  std::int64_t segment_begin, segment_end;
  const std::uint16_t* input;        ///< transposed
  const std::uint16_t* output_grad;  ///< paired
  float* sums;                       ///< [tap][stored_in][stored_out]; overwritten
};

/// Functions of one instruction-set file.
struct Kernels {
  std::int64_t (*forward_block)(std::int64_t stored_out);  ///< returns the positions of a block of ForwardTask
  void (*pack)(const PackTask& task);
  void (*convert)(const ConvertTask& task);
  void (*forward)(const ForwardTask& task);
  void (*transpose)(const TransposeTask& task);
  void (*pair)(const PairTask& task);
  void (*weights)(const WeightsTask& task);
};

extern const Kernels kGeneric;
extern const Kernels kAvx512;
extern const Kernels kAmx;

constexpr std::int64_t blocks(const Plane& p, std::int64_t block) { return (p.positions() + block - 1) / block; }

}  // namespace floodtide::kernels::bf16
