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

/// Sizes and strides that all tasks of a convolution share. A row is the x extent at one (z, y). Its index is z * y_extent + y.
struct Rows {
  std::int64_t y, x;                          ///< sizes without the halo
  Strides in_strides, out_strides;            ///< of the input; of the output, its gradient, mask and residual
  std::int64_t used_in;                       ///< number of input channels
  std::int64_t out_channels;                  ///< number of output channels, a multiple of DirectKernels::multiple
  std::int64_t kernel_z, kernel_y, kernel_x;  ///< 1 or 3
  std::int64_t row_begin = 0, row_end = 0;    ///< the task's rows
};

/// Task: compute some rows of out = conv(f(input)) + bias, then apply mask, residual and final ReLU, if given. Backward-data is
/// the same with flipped, transposed weights.
struct ForwardTask : Rows {
  std::int64_t padding = 0;         ///< number of channels after the output channels that become zero, a multiple of 8
  const float* input = nullptr;     ///< voxel (0, 0, 0); so are mask, residual and out
  const float* weights = nullptr;   ///< packed: [group][kz, ky][used_in][kx][channels of the group], see DirectKernels::group
  const float* bias = nullptr;      ///< [out_channels]
  const float* mask = nullptr;      ///< the sum becomes 0 where the mask is not positive; layout of the output; may be null
  const float* residual = nullptr;  ///< added after the mask; layout of the output; may be null, may be `out`
  float* out = nullptr;
  bool relu_input = false, relu_output = false;
};

/// Task: add the contribution of some rows to the gradients of weights and biases.
struct WeightsTask : Rows {
  const float* input = nullptr;  ///< voxel (0, 0, 0); so is output_grad
  const float* output_grad = nullptr;
  float* weight_grad = nullptr;  ///< [kz, ky, kx][used_in][out_channels], added to
  float* bias_grad = nullptr;    ///< [out_channels], added to
  bool relu_input = false;
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
