// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Interface of the kernels with bfloat16 operands and float sums: their tasks and function pointers. Plain data only, because
// instruction-set files include nothing else.
//
// The number of channels is a multiple of 32. Activations have the layout of Conv3d, in bfloat16 or float. The positions of a
// plane count from its first voxel to its last one along the rows, and include the halo between two rows. So a plane is one
// long row, and a step to a neighbour has the same distance everywhere.
namespace floodtide::kernels::bf16 {

constexpr std::int64_t kPanel = 16;  ///< rows of a tile, and its pairs or floats in a row
constexpr std::int64_t kTile = 32;   ///< bfloat16 numbers in a row of a tile; positions and channels of a block
constexpr std::int64_t kTaps = 27;

struct Layout {
  std::int64_t z, y, x;   ///< sizes without the halo
  std::int64_t channels;  ///< of all activations, a multiple of 32

  [[nodiscard]] constexpr std::int64_t row() const { return x + 2; }
  [[nodiscard]] constexpr std::int64_t plane_voxels() const { return (y + 2) * row(); }
  [[nodiscard]] constexpr std::int64_t first() const { return row() + 1; }  ///< voxel of a plane that is position 0
  [[nodiscard]] constexpr std::int64_t positions() const { return y * row() - 2; }
  /// Return the elements of an activation. Blocks read up to 31 voxels beyond the last one.
  [[nodiscard]] constexpr std::int64_t activation_size() const { return ((z + 2) * plane_voxels() + kTile) * channels; }
  [[nodiscard]] constexpr std::int64_t weights_size() const { return kTaps * channels * channels; }
  /// Return the bfloat16 numbers of a plane of paired inputs: [pair of voxels][channel][2].
  [[nodiscard]] constexpr std::int64_t pairs() const { return (plane_voxels() + kTile) / 2; }
  [[nodiscard]] constexpr std::int64_t paired_size() const { return pairs() * channels * 2; }
  /// Return the bfloat16 numbers of a plane of transposed gradients, [block of positions][channel][position of the block], and
  /// the number of blocks. The last position of a block may be that of another one, shifted by one.
  [[nodiscard]] constexpr std::int64_t gradient_blocks() const { return positions() / kTile + 1; }
  [[nodiscard]] constexpr std::int64_t transposed_size() const { return gradient_blocks() * channels * kTile; }
  /// Return the bfloat16 numbers of GradientTask::scratch: paired inputs of three planes, a plane of transposed gradients, and
  /// the same shifted by one position.
  [[nodiscard]] constexpr std::int64_t scratch_size() const { return 3 * paired_size() + 2 * transposed_size(); }
};

/// Task: pack weights [tap][in][out] of some taps as [block of 32 outputs][tap][block of 32 inputs][panel of 16 outputs]
/// [pair of inputs][output of the panel][2].
struct PackTask {
  Layout layout;
  std::int64_t tap_begin, tap_end;
  const float* weights;
  std::uint16_t* packed;
};

/// Task: round a plane of floats to bfloat16, its halo included.
struct RoundTask {
  Layout layout;
  std::int64_t plane;  ///< 0 is the first one of the interior
  const float* input;
  std::uint16_t* out;
};

/// Task: compute a plane of a convolution. Arrays are whole activations.
struct ConvolveTask {
  Layout layout;
  std::int64_t plane;
  const std::uint16_t* input;
  const std::uint16_t* weights;  ///< packed
  const float* bias;             ///< [channels]
  const std::uint16_t* mask;     ///< the sum becomes 0 where the mask is not positive; may be null
  const float* residual;         ///< added after the mask; may be null, may be `out`
  float* out;                    ///< the result; may be null
  std::uint16_t* out_rounded;    ///< the result, after a ReLU if `rectify`; may be null
  bool rectify;
};

/// Task: compute the gradients of weights and biases over some planes.
struct GradientTask {
  Layout layout;
  std::int64_t plane_begin, plane_end;
  const std::uint16_t* input;        ///< activation
  const std::uint16_t* output_grad;  ///< activation
  float* sums;                       ///< [tap][out][in], overwritten
  float* bias_sums;                  ///< [out], overwritten
  std::uint16_t* scratch;
};

/// Functions of one instruction-set file.
struct Kernels {
  void (*pack)(const PackTask& task);
  void (*round)(const RoundTask& task);
  void (*convolve)(const ConvolveTask& task);
  void (*gradient)(const GradientTask& task);
};

extern const Kernels kAmx;

}  // namespace floodtide::kernels::bf16
