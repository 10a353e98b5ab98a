// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Interface of the direct kernels: their tasks and function pointers. Plain data only, because instruction-set files include
// nothing else.
namespace floodtide::kernels::direct {

/// Number of floats from one voxel, row or plane to the next. With these strides, a task can also use every second voxel of a
/// volume, or a part of the channels.
struct Strides {
  std::int64_t voxel, row, plane;
};
constexpr Strides dense_strides(std::int64_t y, std::int64_t x, std::int64_t channels) {
  return {channels, (x + 2) * channels, (y + 2) * (x + 2) * channels};
}

/// Task: compute some rows of out = conv(f(input)) + bias, then apply mask, residual and final ReLU, if given. Backward-data is
/// the same with flipped, transposed weights. A row is the x extent at one (z, y). The index of a row is z * y_extent + y.
struct ForwardTask {
  std::int64_t y, x;                          ///< sizes without the halo
  Strides in_strides, out_strides;            ///< of the input; of the output, mask and residual
  std::int64_t used_in;                       ///< number of input channels
  std::int64_t out_channels;                  ///< number of output channels, a multiple of DirectKernels::multiple
  std::int64_t padding;                       ///< number of channels after them that become zero, a multiple of 8
  std::int64_t kernel_z, kernel_y, kernel_x;  ///< 1 or 3
  std::int64_t row_begin, row_end;
  const float* input;     ///< voxel (0, 0, 0); so are mask, residual and out
  const float* weights;   ///< packed: [group][kz, ky][used_in][kx][channels of the group], see DirectKernels::group
  const float* bias;      ///< [out_channels]
  const float* mask;      ///< the sum becomes 0 where the mask is not positive; layout of the output; may be null
  const float* residual;  ///< added after the mask; layout of the output; may be null, may be `out`
  float* out;
  bool relu_input, relu_output;
};

/// Task: add the contribution of some rows to the gradients of weights and biases.
struct WeightsTask {
  std::int64_t y, x;
  Strides in_strides, out_strides;  ///< of the input and of the output's gradient
  std::int64_t used_in;
  std::int64_t out_channels;
  std::int64_t kernel_z, kernel_y, kernel_x;
  std::int64_t row_begin, row_end;
  const float* input;  ///< voxel (0, 0, 0); so is output_grad
  const float* output_grad;
  float* weight_grad;  ///< [kz, ky, kx][used_in][out_channels], added to
  float* bias_grad;    ///< [out_channels], added to
  bool relu_input;
};

/// Functions of one instruction-set file.
struct DirectKernels {
  std::int64_t multiple;  ///< the number of output channels is a multiple of this
  std::int64_t group;     ///< number of output channels computed together; the last group may be smaller
  void (*forward)(const ForwardTask& task);
  void (*weights)(const WeightsTask& task);
};

extern const DirectKernels kGeneric;
extern const DirectKernels kAvx2, kAvx2Narrow;
extern const DirectKernels kAvx512, kAvx512Narrow;

/// Kernels of one instruction-set level. Up to narrow->multiple output channels, the narrow ones are faster, because the wide
/// ones compute 16 channels.
struct LevelKernels {
  const DirectKernels* wide;
  const DirectKernels* narrow;

  [[nodiscard]] const DirectKernels& for_outputs(std::int64_t channels) const {
    return channels <= narrow->multiple ? *narrow : *wide;
  }
};

/// Size in floats of the rectified copy of the input, which a task makes on its stack. It must be large enough for all kernel
/// rows of one output voxel.
inline constexpr std::int64_t kCopyFloats = 16384;
inline constexpr std::int64_t kMaxChannels = 512;

}  // namespace floodtide::kernels::direct
