// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/sums.hpp"
#include "kernels/conv3d/winograd.hpp"

// Products of transformed tiles with transformed weights, and of transformed inputs with transformed gradients.
namespace floodtide::kernels::winograd {
namespace {

/// Computes out[tile][0 .. Vectors) = sum over k of x[tile][k] * weights[k], for one point and `Tiles` tiles.
template <class B, int Tiles, int Vectors>
FLOODTIDE_BLOCK void product_block(const float* x, Index step, Index depth, const float* weights, float* out) {
  using Vector = typename B::Vector;
  Vector sums[Tiles][Vectors];
  clear_sums<B>(sums);
  accumulate<B, Tiles, Vectors, Factor::real>(x, step, depth, weights, 0, sums);
  store_sums<B>(sums, out, step);
}

template <class B, int Tiles, int Vectors>
FLOODTIDE_INLINE void product_tiles(Index count, const float* x, Index step, Index depth, const float* weights, float* out) {
  if constexpr (Tiles > 1) {
    if (count < Tiles) return product_tiles<B, Tiles - 1, Vectors>(count, x, step, depth, weights, out);
  }
  product_block<B, Tiles, Vectors>(x, step, depth, weights, out);
}

/// Computes the products of all points in place: [tile][in] becomes [tile][out]. Tiles are `step` floats apart.
template <class B>
void products(const ForwardTask& task, Index tiles, float* transformed, Index stride, Index step) {
  constexpr Index group = B::Lanes * B::Vectors;
  alignas(64) float copy[B::Tiles * 256];
  const Index count = points(task.tiling);
  const Index blocks = (tiles + B::Tiles - 1) / B::Tiles;
  const float* weights = task.weights;
  for (Index point = 0; point < count; ++point, weights += task.in_channels * task.out_channels) {
    for (Index block = 0; block < blocks; ++block) {
      const Index begin = part_begin(tiles, blocks, block);
      const Index here = part_begin(tiles, blocks, block + 1) - begin;
      float* const at = transformed + point * stride + begin * step;
      const float* from = at;
      if (task.out_channels > group) {  // the results of the first group overwrite the input of the other groups
        for (Index i = 0; i < here * step; i += B::Lanes) slot<B>(copy + i) = load<B>(at + i);
        from = copy;
      }
      const float* group_weights = weights;
      for (Index channel = 0; channel < task.out_channels; channel += group) {
        if (group <= 16 || task.out_channels - channel >= group) {
          product_tiles<B, B::Tiles, B::Vectors>(here, from, step, task.in_channels, group_weights, at + channel);
        } else {
          product_tiles<B, B::Tiles, 16 / B::Lanes>(here, from, step, task.in_channels, group_weights, at + channel);
        }
        group_weights += task.in_channels * group;
      }
    }
  }
}

/// Computes sums[channel][0 .. Vectors) = sum over tiles of x[tile][channel] * grad[tile], for one point and `Channels` input
/// channels. Unless `first`, the result is added to `sums`.
template <class B, int Channels, int Vectors>
FLOODTIDE_BLOCK void weights_block(const float* x, Index x_step, const float* grad, Index grad_step, Index tiles, bool first,
                                   float* sums, Index sums_step) {
  using Vector = typename B::Vector;
  Vector sum[Channels][Vectors];
  clear_sums<B>(sum);
  add_tiles<B>(x, x_step, grad, grad_step, tiles, sum);
#pragma GCC unroll 16
  for (int channel = 0; channel < Channels; ++channel) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) {
      // The sum of each block is made separately and then added. Rounding errors are smaller than with one long sum.
      float* const at = sums + channel * sums_step + vector * B::Lanes;
      slot<B>(at) = first ? sum[channel][vector] : load<B>(at) + sum[channel][vector];
    }
  }
}

template <class B, int Channels, int Vectors>
FLOODTIDE_INLINE void weights_channels(Index count, const float* x, Index x_step, const float* grad, Index grad_step,
                                       Index tiles, bool first, float* sums, Index sums_step) {
  if constexpr (Channels > 1) {
    if (count < Channels) {
      return weights_channels<B, Channels - 1, Vectors>(count, x, x_step, grad, grad_step, tiles, first, sums, sums_step);
    }
  }
  weights_block<B, Channels, Vectors>(x, x_step, grad, grad_step, tiles, first, sums, sums_step);
}

/// Computes sums[in][out] = x^T * grad for one point. Unless `first`, the result is added to `sums`.
template <class B, int Vectors>
FLOODTIDE_INLINE void weights_group(const MultiplyTask& task, const float* x, const float* grad, float* sums) {
  const Index blocks = (task.in_channels + B::Channels - 1) / B::Channels;
  for (Index block = 0; block < blocks; ++block) {
    const Index begin = part_begin(task.in_channels, blocks, block);
    const Index count = part_begin(task.in_channels, blocks, block + 1) - begin;
    weights_channels<B, B::Channels, Vectors>(count, x + begin, task.in_channels, grad, task.out_channels, task.tiles,
                                              task.first, sums + begin * task.out_channels, task.out_channels);
  }
}

/// Transformed tiles of a WeightsTask: of the input, and of the gradients.
template <class B>
struct TransformedTiles {
  Index x_stride, grad_stride;  ///< floats from one point to the next
  Index x, grad;                ///< offsets in the scratch memory

  FLOODTIDE_INLINE TransformedTiles(const Tiling& t, Index in_channels, Index out_channels)
      : x_stride(point_stride(B::WeightsTiles, in_channels)),
        grad_stride(point_stride(B::WeightsTiles, out_channels)),
        x(ring_floats(t)),
        grad(x + transformed_floats(t, B::WeightsTiles, in_channels)) {}
};

template <class B>
void multiply_point(const MultiplyTask& task) {
  constexpr Index group = B::Lanes * B::Vectors;
  const TransformedTiles<B> layout(task.tiling, task.in_channels, task.out_channels);
  const float* const x = task.scratch + layout.x + task.point * layout.x_stride;
  const float* const grad = task.scratch + layout.grad + task.point * layout.grad_stride;
  float* const sums = task.products + task.point * task.in_channels * task.out_channels;
  for (Index channel = 0; channel < task.out_channels; channel += group) {
    if (group <= 16 || task.out_channels - channel >= group) {
      weights_group<B, B::Vectors>(task, x, grad + channel, sums + channel);
    } else {
      weights_group<B, 16 / B::Lanes>(task, x, grad + channel, sums + channel);
    }
  }
}

}  // namespace
}  // namespace floodtide::kernels::winograd
