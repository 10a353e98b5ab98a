// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Operations of a U-Net between its convolutions. Each call processes one row of voxels, so that callers can combine calls and
// run them on threads. Plain data only, because instruction-set files include nothing else.
//
// Rows have `count` voxels of `channels` floats (a multiple of 16), aligned to 64 bytes. Voxels are `step` floats apart:
// `channels`, or more in a concatenation.
namespace floodtide::kernels::pointwise {

/// Factors of out = relu(scale * x + shift), one per channel.
struct Affine {
  const float* scale;
  const float* shift;
};

/// Factors of the gradient of batch norm, one per channel: slope * g + curve * (x - mean) + offset. Here g is the gradient by
/// the input of the ReLU.
struct AffineGradient {
  const float* slope;
  const float* curve;
  const float* mean;
  const float* offset;
};

struct Kernels {
  /// Adds the sum of x to sums[0][c], and the sum of x * x to sums[1][c].
  void (*sums)(const float* x, std::int64_t count, std::int64_t channels, double* sums);
  /// Computes out = relu(scale * x + shift).
  void (*normalise)(const float* x, Affine affine, std::int64_t count, std::int64_t channels, float* out,
                    std::int64_t out_step);
  /// Adds the sum of g to sums[0][c], and the sum of g * x to sums[1][c]. g is `grad` where scale * x + shift > 0, else 0.
  void (*gradient_sums)(const float* x, Affine affine, const float* grad, std::int64_t grad_step, std::int64_t count,
                        std::int64_t channels, double* sums);
  /// Computes the gradient by x. `out` may be `grad` if the steps are equal.
  void (*gradient)(const float* x, Affine affine, AffineGradient factors, const float* grad, std::int64_t grad_step,
                   std::int64_t count, std::int64_t channels, float* out);
  /// Max pooling of relu(scale * x + shift): out[x] is the largest value over `row_count` rows and `pool` voxels of each; NaN
  /// if one of them is NaN. `row_count` is at most 16, `pool` at most 4.
  void (*max_pool)(const float* const* rows, Affine affine, std::int64_t row_count, std::int64_t pool, std::int64_t count,
                   std::int64_t channels, float* out);
  /// Adds grad[x] to the gradient of the first voxel, in the order of the rows, with the largest value of scale * x + shift.
  void (*max_pool_gradient)(const float* const* rows, Affine affine, std::int64_t row_count, std::int64_t pool,
                            std::int64_t count, std::int64_t channels, const float* grad, float* const* row_grads);
  /// Computes logits[x][k] = biases[k] + sum over c of x[c] * weights[k][c]. Weights are [classes][channels].
  void (*head)(const float* x, std::int64_t count, std::int64_t channels, std::int64_t classes, const float* weights,
               const float* biases, float* logits);
  /// Computes out_grad[x][c] = sum over k of logit_grad[x][k] * weights[k][c]. Adds the sum over x of logit_grad[x][k] * x[c]
  /// to weight_sums[k][c].
  void (*head_gradient)(const float* x, std::int64_t count, std::int64_t channels, std::int64_t classes, const float* weights,
                        const float* logit_grad, float* out_grad, double* weight_sums);
};

extern const Kernels kGeneric;
extern const Kernels kAvx2;
extern const Kernels kAvx512;

}  // namespace floodtide::kernels::pointwise
