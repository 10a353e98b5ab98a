// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fft_chain/products.hpp"
#include "kernels/fft_chain/weights.hpp"

// Gradients of weights: at each point, the conjugate of the inputs times the gradients of the outputs, summed over the tiles.
// For x = a + ib and g = c + id, conj(x) g takes three real products: with m = a c and n = b d, it is
// m + n + i ((a - b) (c + d) - m + n).
namespace floodtide::kernels::fft {
namespace {

/// Pointers to the first tile of a block of channels: inputs, gradients, and the products of the block.
struct GradientBlock {
  const float *x_re, *x_im, *x_difference;
  const float *re, *im, *sum;
  float *out_re, *out_im;
};

template <class B, int Channels, int Vectors>
FLOODTIDE_BLOCK void gradient_block(const GradientBlock& at, Index step, Index tiles) {
  typename B::Vector sums[Channels][Vectors];
  clear_sums<B>(sums);
  add_tiles<B>(at.x_im, step, at.im, step, tiles, sums);
  store_sums<B>(sums, at.out_im, step);
  add_tiles<B>(at.x_re, step, at.re, step, tiles, sums);
  store_sums<B>(sums, at.out_re, step);
#pragma GCC unroll 16
  for (int channel = 0; channel < Channels; ++channel) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) {
      sums[channel][vector] = 2.0F * load<B>(at.out_im + channel * step + vector * B::Lanes) - sums[channel][vector];
    }
  }
  add_tiles<B>(at.x_difference, step, at.sum, step, tiles, sums);
  store_sums<B>(sums, at.out_im, step);
}

template <class B, int Channels, int Vectors>
FLOODTIDE_INLINE void gradient_channels(Index count, const GradientBlock& at, Index step, Index tiles) {
  if constexpr (Channels > 1) {
    if (count < Channels) return gradient_channels<B, Channels - 1, Vectors>(count, at, step, tiles);
  }
  gradient_block<B, Channels, Vectors>(at, step, tiles);
}

/// Computes the products of one point, [real, imaginary][in][out].
template <class B>
FLOODTIDE_INLINE void gradient_point(const Layout& layout, const Columns& x, const Columns& grad, Index point, float* to) {
  const Index channels = layout.channels, squared = channels * channels;
  const Index blocks = (channels + B::Tiles - 1) / B::Tiles;  // a register block holds as many channels as tiles
  for (Index out = 0; out < channels; out += B::Outputs) {
    for (Index block = 0; block < blocks; ++block) {
      const Index in = part_begin(channels, blocks, block), count = part_begin(channels, blocks, block + 1) - in;
      const GradientBlock here{
          x.input(point, 0) + in,     x.input(point, 1) + in,     x.input(point, 2) + in,   grad.input(point, 0) + out,
          grad.input(point, 1) + out, grad.input(point, 2) + out, to + in * channels + out, to + squared + in * channels + out};
      if (channels - out >= B::Outputs) {
        gradient_channels<B, B::Tiles, B::Outputs / B::Lanes>(count, here, channels, layout.tiles());
      } else {
        gradient_channels<B, B::Tiles, 16 / B::Lanes>(count, here, channels, layout.tiles());
      }
    }
  }
}

/// Points along z that add_to_taps() adds. `first`: frequency 0, before all others. `single`: frequency 6. `pair`: frequencies
/// k and 12 - k; in memory, first the products of k, then the products of 12 - k. `real_pair`: also k and 12 - k, but only the
/// products of k are stored. Their conjugates are the products of 12 - k.
enum class Point { first, single, pair, real_pair };

/// Adds the products of frequency `k` to the three taps along z, [tap][real, imaginary][in][out].
template <class B, Point point>
FLOODTIDE_BLOCK void add_to_taps(const float* products, Index count, int k, float* taps) {
  using Vector = typename B::Vector;
  for (Index i = 0; i < count; i += B::Lanes) {
    Vector even_re = load<B>(products + i), even_im = load<B>(products + count + i), odd_re{}, odd_im{};
    if constexpr (point == Point::pair) {
      const Vector re = load<B>(products + 2 * count + i), im = load<B>(products + 3 * count + i);
      odd_re = even_re - re;
      odd_im = even_im - im;
      even_re += re;
      even_im += im;
    } else if constexpr (point == Point::real_pair) {
      odd_im = 2.0F * even_im;
      even_re *= 2.0F;
      even_im = Vector{};
    }
#pragma GCC unroll 3
    for (int tap = 0; tap < 3; ++tap) {
      const float cos = kCos[k * tap % 12], sin = kSin[k * tap % 12];
      float *const re = taps + 2 * tap * count + i, *const im = re + count;
      const Vector more_re = cos * even_re - sin * odd_im, more_im = cos * even_im + sin * odd_re;
      slot<B>(re) = point == Point::first ? more_re : load<B>(re) + more_re;
      slot<B>(im) = point == Point::first ? more_im : load<B>(im) + more_im;
    }
  }
}

/// Adds the point at infinity, which only the last tap has. The factor 1/12 of an inverse transform follows for all taps.
template <class B>
FLOODTIDE_BLOCK void add_infinity(const float* products, Index count, float* taps) {
  for (Index i = 0; i < 2 * count; i += B::Lanes) slot<B>(taps + 4 * count + i) += 12.0F * load<B>(products + i);
}

/// Computes the products of all points of a group, transformed back along z: [tap][real, imaginary][in][out].
/// @param scratch for two points
template <class B, bool Real>
FLOODTIDE_INLINE void weight_products(const Layout& layout, const Columns& x, const Columns& grad, float* scratch,
                                      float* taps) {
  const Index squared = layout.channels * layout.channels;
  for (int k = 0; k <= 6; ++k) {
    gradient_point<B>(layout, x, grad, k, scratch);
    if (k == 0) {
      add_to_taps<B, Point::first>(scratch, squared, k, taps);
    } else if (k == 6) {
      add_to_taps<B, Point::single>(scratch, squared, k, taps);
    } else if constexpr (Real) {
      add_to_taps<B, Point::real_pair>(scratch, squared, k, taps);
    } else {
      gradient_point<B>(layout, x, grad, 12 - k, scratch + 2 * squared);
      add_to_taps<B, Point::pair>(scratch, squared, k, taps);
    }
  }
  gradient_point<B>(layout, x, grad, kInfinity, scratch);
  add_infinity<B>(scratch, squared, taps);
}

/// For each group, the factors by which the real and the imaginary part of its products enter the nine taps (y, x).
struct TapFactors {
  float re[kGroups][9], im[kGroups][9];
};
constexpr TapFactors tap_factors() {
  TapFactors result{};
  for (Index group = 0; group < kGroups; ++group) {
    const GroupPoint point = group_point(group);
    for (Index tap = 0; tap < 9; ++tap) {
      const Number a = tap_factor(point.y, tap / 3), b = tap_factor(point.x, tap % 3);
      result.re[group][tap] = static_cast<float>(point.factor * (a.re * b.re - a.im * b.im));
      result.im[group][tap] = static_cast<float>(-point.factor * (a.re * b.im + a.im * b.re));
    }
  }
  return result;
}

template <class B>
void weight_gradients(const WeightGradientsTask& task) {
  using Vector = typename B::Vector;
  static constexpr TapFactors factors = tap_factors();
  const Index channels = task.layout.channels, squared = channels * channels, stride = task.layout.group_products();
  for (Index row = task.row_begin; row < task.row_end; ++row) {
    const Index z = row / channels, in = row % channels;
    for (Index out = 0; out < channels; out += B::Lanes) {
      const float* from = task.products + 2 * z * squared + in * channels + out;
      Vector sums[9];
#pragma GCC unroll 9
      for (int tap = 0; tap < 9; ++tap) sums[tap] = Vector{};
      for (Index group = 0; group < kGroups; ++group, from += stride) {
        const Vector re = load<B>(from), im = load<B>(from + squared);
#pragma GCC unroll 9
        for (int tap = 0; tap < 9; ++tap) sums[tap] += factors.re[group][tap] * re + factors.im[group][tap] * im;
      }
      // A tile that is moved forwards over the gradients is moved backwards over the outputs.
#pragma GCC unroll 9
      for (int tap = 0; tap < 9; ++tap) {
        float* const to = task.weight_grad + (((2 - z) * 9 + 8 - tap) * channels + in) * channels + out;
        *reinterpret_cast<typename Lanes<B::Lanes>::Unaligned*>(to) += sums[tap];
      }
    }
  }
}

template <class B>
void sum_plane(const Layout& layout, const float* plane, double* out_sums) {
  for (Index channel = 0; channel < layout.channels; channel += B::Lanes) {
    Doubles<B::Lanes> sum{};
    for (Index y = 0; y < layout.rows(); ++y) {
      const float* const row = plane + layout.interior() + y * layout.row_stride() + channel;
      typename B::Vector of_row{};
      for (Index x = 0; x < layout.columns(); ++x) of_row += load<B>(row + x * layout.channels);
      sum += Doubles<B::Lanes>::load(reinterpret_cast<const float*>(&of_row));
    }
    for (int i = 0; i < B::Lanes; ++i) out_sums[channel + i] = sum[i];
  }
}

}  // namespace
}  // namespace floodtide::kernels::fft
