// SPDX-License-Identifier: Apache-2.0
// Sums of products that stay in registers: of a few tiles or channels times a few vectors of output channels.
#pragma once

#include "kernels/conv3d/simd.hpp"

namespace floodtide::kernels {
namespace {

template <class B, int Rows, int Vectors>
FLOODTIDE_INLINE void clear_sums(typename B::Vector (&sums)[Rows][Vectors]) {
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) sums[row][vector] = typename B::Vector{};
  }
}

/// What a product multiplies by: the real part of the weights (all of real weights), the imaginary part minus the real one, or
/// the sum of both, and is subtracted.
enum class Factor { real, difference, sum };

/// Adds a product to the sums. The imaginary parts of the weights follow `weights` after `imaginary` floats.
template <class B, int Tiles, int Vectors, Factor factor>
FLOODTIDE_INLINE void accumulate(const float* x, Index step, Index depth, const float* weights, Index imaginary,
                                 typename B::Vector (&sums)[Tiles][Vectors]) {
  using Vector = typename B::Vector;
  // One pointer for three tiles, because an x86 address can be base, base + step or base + 2 * step.
  const float* base[(Tiles + 2) / 3];
#pragma GCC unroll 8
  for (int i = 0; i < (Tiles + 2) / 3; ++i) base[i] = x + 3 * i * step;
#pragma GCC unroll 4
  for (Index k = 0; k < depth; ++k, weights += Vectors * B::Lanes) {
    Vector weight[Vectors];
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) {
      weight[vector] = load<B>(weights + vector * B::Lanes);
      if constexpr (factor == Factor::difference)
        weight[vector] = load<B>(weights + imaginary + vector * B::Lanes) - weight[vector];
      if constexpr (factor == Factor::sum) weight[vector] += load<B>(weights + imaginary + vector * B::Lanes);
    }
#pragma GCC unroll 16
    for (int tile = 0; tile < Tiles; ++tile) {
      const float value = base[tile / 3][tile % 3 * step + k];
#pragma GCC unroll 4
      for (int vector = 0; vector < Vectors; ++vector) {
        if constexpr (factor == Factor::sum) {
          sums[tile][vector] -= weight[vector] * value;
        } else {
          sums[tile][vector] += weight[vector] * value;
        }
      }
    }
  }
}

template <class B, int Tiles, int Vectors>
FLOODTIDE_INLINE void store_sums(const typename B::Vector (&sums)[Tiles][Vectors], float* to, Index step) {
#pragma GCC unroll 16
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) slot<B>(to + tile * step + vector * B::Lanes) = sums[tile][vector];
  }
}

template <class B, int Tiles, int Vectors>
FLOODTIDE_INLINE void load_sums(const float* from, Index step, typename B::Vector (&sums)[Tiles][Vectors]) {
#pragma GCC unroll 16
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) sums[tile][vector] = load<B>(from + tile * step + vector * B::Lanes);
  }
}

/// Adds the products of all tiles to sums[in][out].
template <class B, int Channels, int Vectors>
FLOODTIDE_INLINE void add_tiles(const float* x, Index x_step, const float* grad, Index grad_step, Index tiles,
                                typename B::Vector (&sums)[Channels][Vectors]) {
  for (Index tile = 0; tile < tiles; ++tile, x += x_step, grad += grad_step) {
    typename B::Vector gradient[Vectors];
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) gradient[vector] = load<B>(grad + vector * B::Lanes);
#pragma GCC unroll 16
    for (int channel = 0; channel < Channels; ++channel) {
#pragma GCC unroll 4
      for (int vector = 0; vector < Vectors; ++vector) sums[channel][vector] += gradient[vector] * x[channel];
    }
  }
}

}  // namespace
}  // namespace floodtide::kernels
