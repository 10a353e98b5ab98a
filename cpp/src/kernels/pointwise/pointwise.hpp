// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What a U-Net does between its convolutions, one row of voxels at a time, so that callers can fuse and thread it. Plain data:
// this is all that an instruction-set file sees. Rows hold `count` voxels of `channels` floats (a multiple of 16), aligned to
// 64 bytes; a voxel begins `step` floats after the one before it (`channels`, or more in a concatenation).
namespace floodtide::kernels::pointwise {

/// Factors of out = relu(scale * x + shift), one a channel.
struct Affine {
  const float* scale;
  const float* shift;
};

/// Factors of the gradient through batch norm, one a channel: slope * g + curve * (x - mean) + offset, where g is the gradient
/// after the ReLU.
struct AffineGradient {
  const float* slope;
  const float* curve;
  const float* mean;
  const float* offset;
};

struct Kernels {
  /// sums[0][c] += sum of x, sums[1][c] += sum of x * x.
  void (*sums)(const float* x, std::int64_t count, std::int64_t channels, double* sums);
  /// out = relu(scale * x + shift).
  void (*normalise)(const float* x, Affine affine, std::int64_t count, std::int64_t channels, float* out,
                    std::int64_t out_step);
  /// With g = grad where scale * x + shift > 0, else 0: sums[0][c] += sum of g, sums[1][c] += sum of g * x.
  void (*gradient_sums)(const float* x, Affine affine, const float* grad, std::int64_t grad_step, std::int64_t count,
                        std::int64_t channels, double* sums);
  /// out = the gradient by x; may be `grad` itself if the steps are equal.
  void (*gradient)(const float* x, Affine affine, AffineGradient factors, const float* grad, std::int64_t grad_step,
                   std::int64_t count, std::int64_t channels, float* out);
  /// out[x] = the largest over `rows` rows and `pool` voxels of each: max pooling. NaN wins.
  void (*max_pool)(const float* const* rows, std::int64_t row_count, std::int64_t step, std::int64_t pool, std::int64_t count,
                   std::int64_t channels, float* out);
  /// Adds grad[x] to the gradient of the first voxel (rows in order) that equals pooled[x].
  void (*max_pool_gradient)(const float* const* rows, std::int64_t row_count, std::int64_t step, std::int64_t pool,
                            std::int64_t count, std::int64_t channels, const float* pooled, const float* grad,
                            float* const* row_grads);
  /// logits[x][k] = biases[k] + sum over c of x[c] * weights[k][c]. [classes][channels] weights.
  void (*head)(const float* x, std::int64_t count, std::int64_t channels, std::int64_t classes, const float* weights,
               const float* biases, float* logits);
  /// out_grad[x][c] = sum over k of logit_grad[x][k] * weights[k][c]; weight_sums[k][c] += sum over x of logit_grad[x][k] *
  /// x[c].
  void (*head_gradient)(const float* x, std::int64_t count, std::int64_t channels, std::int64_t classes, const float* weights,
                        const float* logit_grad, float* out_grad, double* weight_sums);
};

extern const Kernels kGeneric;
extern const Kernels kAvx2;
extern const Kernels kAvx512;

}  // namespace floodtide::kernels::pointwise
