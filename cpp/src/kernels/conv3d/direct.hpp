// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What the direct kernels are given and how they are reached. Plain data: this is all that an instruction-set file sees.
namespace floodtide::kernels::direct {

/// Floats from one voxel, row or plane to the next: a volume with its halo, or every second voxel of one, or some channels of
/// each.
struct Strides {
  std::int64_t voxel, row, plane;
};
constexpr Strides dense_strides(std::int64_t y, std::int64_t x, std::int64_t channels) {
  return {channels, (x + 2) * channels, (y + 2) * (x + 2) * channels};
}

/// Some rows of out = conv(f(input)) + bias, then the mask, the residual and the final ReLU, each where given. Backward-data
/// is the same with flipped, transposed weights. A row is the x extent at one (z, y); rows are numbered z * y_extent + y.
struct ForwardTask {
  std::int64_t y, x;                          ///< interior extents
  Strides in_strides, out_strides;            ///< of the input; of the output, mask and residual
  std::int64_t used_in;                       ///< input channels to multiply
  std::int64_t out_channels;                  ///< to compute, a multiple of 16
  std::int64_t kernel_z, kernel_y, kernel_x;  ///< 1 or 3
  std::int64_t row_begin, row_end;
  const float* input;     ///< here and below: at voxel (0, 0, 0)
  const float* weights;   ///< packed: [group][kz, ky][used_in][kx][channels of the group], see DirectKernels::group
  const float* bias;      ///< [out_channels]
  const float* mask;      ///< zero the sum where it is not positive; output's layout; may be null
  const float* residual;  ///< added after the mask; output's layout; may be null, may be `out`
  float* out;
  bool relu_input, relu_output;
};

/// The share of some rows in the weight gradient.
struct WeightsTask {
  std::int64_t y, x;
  Strides in_strides, out_strides;  ///< of the input and of the output's gradient
  std::int64_t used_in;
  std::int64_t out_channels;
  std::int64_t kernel_z, kernel_y, kernel_x;
  std::int64_t row_begin, row_end;
  const float* input;  ///< here and below: at voxel (0, 0, 0)
  const float* output_grad;
  float* weight_grad;  ///< [kz, ky, kx][used_in][out_channels], added to
  float* bias_grad;    ///< [out_channels], added to
  bool relu_input;
};

/// What an instruction-set file exports.
struct DirectKernels {
  std::int64_t group;  ///< output channels computed together; the last group has what remains, a multiple of 16 or `group`
  void (*forward)(const ForwardTask& task);
  void (*weights)(const WeightsTask& task);
};

extern const DirectKernels kGeneric;
extern const DirectKernels kAvx2;
extern const DirectKernels kAvx512;

/// Floats of the rectified copy that a task makes on its stack; every kernel row of one output voxel has to fit.
inline constexpr std::int64_t kCopyFloats = 16384;
inline constexpr std::int64_t kMaxChannels = 512;

}  // namespace floodtide::kernels::direct
