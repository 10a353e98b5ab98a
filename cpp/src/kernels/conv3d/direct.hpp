// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What the direct kernels are given and how they are reached. Plain data: this is all that an instruction-set file sees.
namespace floodtide::kernels::direct {

/// Some rows of out = conv(f(input)) + bias, then the mask, the residual and the final ReLU, each where given. Backward-data
/// is the same with flipped, transposed weights. A row is the x extent at one (z, y); rows are numbered z * y_extent + y.
struct ForwardTask {
  std::int64_t y, x;                          ///< interior extents
  std::int64_t in_channels, out_channels;     ///< as stored
  std::int64_t used_in;                       ///< input channels to multiply
  std::int64_t kernel_z, kernel_y, kernel_x;  ///< 1 or 3
  std::int64_t row_begin, row_end;
  const float* input;
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
  std::int64_t in_channels, out_channels;
  std::int64_t used_in;
  std::int64_t kernel_z, kernel_y, kernel_x;
  std::int64_t row_begin, row_end;
  const float* input;
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
inline constexpr std::int64_t kMaxChannels = 256;

}  // namespace floodtide::kernels::direct
