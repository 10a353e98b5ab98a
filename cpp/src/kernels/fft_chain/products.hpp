// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/sums.hpp"
#include "kernels/fft_chain/transforms.hpp"
#include "kernels/fft_chain/weights.hpp"

// Products of the points of a group with their weights. Along z, all tiles of the group are transformed, multiplied and
// transformed back. A complex product takes three real ones (Gauss): with m = (a + b) c, the product of a + ib and c + id is
// m - b (c + d) + i (m + a (d - c)).
namespace floodtide::kernels::fft {
namespace {

/// Spectra of a group along z: [point][real, imaginary, their sum][tile][channel], then the products [point][real,
/// imaginary][tile][channel]. Tiles that are moved over windows have the difference of the parts instead of the sum.
struct Columns {
  float* data;
  Index stride;
  [[nodiscard]] FLOODTIDE_INLINE float* input(Index point, Index part) const { return data + (point * 3 + part) * stride; }
  [[nodiscard]] FLOODTIDE_INLINE float* product(Index point, Index part) const {
    return data + (3 * kPoints + point * 2 + part) * stride;
  }
};

template <class B, bool Real, Inputs inputs>
FLOODTIDE_BLOCK void forward_column(const float* from, Index plane_stride, Index first, Index planes, Index channels,
                                    const Columns& to, Index offset) {
  using Vector = typename B::Vector;
  float *const re = to.input(0, 0) + offset, *const im = to.input(0, 1) + offset, *const both = to.input(0, 2) + offset;
  const Index stride = 3 * to.stride;
  forward_complex<Vector, inputs>(
      [=](int n) FLOODTIDE_LAMBDA {
        const Index plane = first + n;
        if (plane < 0 || plane >= planes) return Complex<Vector>{};  // zeros outside of the volume
        const float* const at = from + plane * plane_stride;
        return Complex<Vector>{load<B>(at), Real ? Vector{} : load<B>(at + channels)};
      },
      [=](int point, Complex<Vector> value) FLOODTIDE_LAMBDA {
        slot<B>(re + point * stride) = value.re;
        slot<B>(im + point * stride) = value.im;
        slot<B>(both + point * stride) = inputs == Inputs::windows ? value.re + value.im : value.re - value.im;
      });
}

/// Transforms all tiles of a group along z.
template <class B, bool Real, Inputs inputs>
FLOODTIDE_INLINE void forward_columns(const Layout& layout, const float* spectrum, const Columns& to) {
  constexpr Index before = inputs == Inputs::windows ? 1 : 0;
  const Index channels = layout.channels;
  Index tile = 0;
  for (Index z = 0; z < layout.tiles_z; ++z) {
    for (Index at = 0; at < layout.plane_tiles(); ++at, ++tile) {
      for (Index channel = 0; channel < channels; channel += B::Lanes) {
        forward_column<B, Real, inputs>(spectrum + at * 2 * channels + channel, layout.plane_stride(), kTile * z - before,
                                        layout.planes(), channels, to, tile * channels + channel);
      }
    }
  }
}

template <class B, bool Real>
FLOODTIDE_BLOCK void inverse_column(const Columns& from, Index offset, float* to, Index plane_stride, Index channels) {
  using Vector = typename B::Vector;
  const float *const re = from.product(0, 0) + offset, *const im = from.product(0, 1) + offset;
  const Index stride = 2 * from.stride;
  inverse_complex<Vector>(
      [=](int point) FLOODTIDE_LAMBDA { return Complex<Vector>{load<B>(re + point * stride), load<B>(im + point * stride)}; },
      [=](int n, Complex<Vector> value) FLOODTIDE_LAMBDA {
        slot<B>(to + n * plane_stride) = value.re;
        if constexpr (!Real) slot<B>(to + n * plane_stride + channels) = value.im;
      });
}

/// Pointers to the first tile of a block: inputs and products.
struct PointBlock {
  const float *re, *im, *sum;
  float *out_re, *out_im;
};

template <class B, int Tiles, int Vectors>
FLOODTIDE_BLOCK void multiply_block(const PointBlock& at, Index step, const float* weights, Index imaginary) {
  using Vector = typename B::Vector;
  Vector sums[Tiles][Vectors];
  clear_sums<B>(sums);
  accumulate<B, Tiles, Vectors, Factor::real>(at.sum, step, step, weights, imaginary, sums);
  store_sums<B>(sums, at.out_re, step);
  accumulate<B, Tiles, Vectors, Factor::difference>(at.re, step, step, weights, imaginary, sums);
  store_sums<B>(sums, at.out_im, step);
  load_sums<B>(at.out_re, step, sums);
  accumulate<B, Tiles, Vectors, Factor::sum>(at.im, step, step, weights, imaginary, sums);
  store_sums<B>(sums, at.out_re, step);
}

template <class B, int Tiles, int Vectors>
FLOODTIDE_INLINE void multiply_tiles(Index count, const PointBlock& at, Index step, const float* weights, Index imaginary) {
  if constexpr (Tiles > 1) {
    if (count < Tiles) return multiply_tiles<B, Tiles - 1, Vectors>(count, at, step, weights, imaginary);
  }
  multiply_block<B, Tiles, Vectors>(at, step, weights, imaginary);
}

/// Multiplies one point of all tiles. The weights are [real, imaginary][block of outputs][in][out].
template <class B>
FLOODTIDE_INLINE void multiply_point(const Layout& layout, const Columns& columns, Index point, const float* weights) {
  const Index channels = layout.channels, tiles = layout.tiles();
  const Index blocks = (tiles + B::Tiles - 1) / B::Tiles;
  for (Index out = 0; out < channels; out += B::Outputs) {
    for (Index block = 0; block < blocks; ++block) {
      const Index begin = part_begin(tiles, blocks, block), count = part_begin(tiles, blocks, block + 1) - begin;
      const Index at = begin * channels;
      const PointBlock here{columns.input(point, 0) + at, columns.input(point, 1) + at, columns.input(point, 2) + at,
                            columns.product(point, 0) + at + out, columns.product(point, 1) + at + out};
      const float* const from = weights + out * channels;
      if (channels - out >= B::Outputs) {
        multiply_tiles<B, B::Tiles, B::Outputs / B::Lanes>(count, here, channels, from, channels * channels);
      } else {
        multiply_tiles<B, B::Tiles, 16 / B::Lanes>(count, here, channels, from, channels * channels);
      }
    }
  }
}

// Cosine and sine of multiples of a twelfth of a turn.
constexpr float kCos[12] = {1, kHalfSqrt3, 0.5F, 0, -0.5F, -kHalfSqrt3, -1, -kHalfSqrt3, -0.5F, 0, 0.5F, kHalfSqrt3};
constexpr float kSin[12] = {0, 0.5F, kHalfSqrt3, 1, kHalfSqrt3, 0.5F, 0, -0.5F, -kHalfSqrt3, -1, -kHalfSqrt3, -0.5F};

/// Computes the weights of frequency `k`, and of its conjugate if `to_conjugate` is given, from the three taps along z.
template <class B>
FLOODTIDE_BLOCK void weights_of_frequency(const float* taps, Index count, int k, float* to, float* to_conjugate) {
  using Vector = typename B::Vector;
  const float cos1 = kCos[k], sin1 = kSin[k], cos2 = kCos[2 * k % 12], sin2 = kSin[2 * k % 12];
  for (Index i = 0; i < count; i += B::Lanes) {
    Vector re[3], im[3];
#pragma GCC unroll 3
    for (int tap = 0; tap < 3; ++tap) {
      re[tap] = load<B>(taps + 2 * tap * count + i);
      im[tap] = load<B>(taps + (2 * tap + 1) * count + i);
    }
    // The correlation multiplies by the conjugate of the weights' transform, so angles are positive.
    const Vector even_re = re[0] + cos1 * re[1] + cos2 * re[2], even_im = im[0] + cos1 * im[1] + cos2 * im[2];
    const Vector odd_re = sin1 * re[1] + sin2 * re[2], odd_im = sin1 * im[1] + sin2 * im[2];
    slot<B>(to + i) = even_re - odd_im;
    slot<B>(to + count + i) = even_im + odd_re;
    if (to_conjugate != nullptr) {
      slot<B>(to_conjugate + i) = even_re + odd_im;
      slot<B>(to_conjugate + count + i) = even_im - odd_re;
    }
  }
}

template <class B>
FLOODTIDE_BLOCK void weights_of_infinity(const float* taps, Index count, float* to) {
  // The transformed weights have the factor 1/12 of an inverse transform along z. This point is not transformed.
  for (Index i = 0; i < 2 * count; i += B::Lanes) slot<B>(to + i) = 12.0F * load<B>(taps + 4 * count + i);
}

/// Multiplies the point of frequency 0 along all axes in double precision, for one tile. Activations after a ReLU are positive,
/// so this point is far larger than the others, and its rounding error reaches all voxels of the tile with the same sign: in
/// single precision, the errors of a network's gradients were twice as large.
/// @param from spectrum of the tile in the first of `planes` planes: the inputs of the transform that are inside the volume
template <class B>
FLOODTIDE_BLOCK void multiply_constant(const float* from, Index planes, Index plane_stride, Index channels, const float* taps,
                                       float* out) {
  using Wide = Doubles<B::Lanes>;
  const Index squared = channels * channels;
  for (Index block = 0; block < channels; block += B::Outputs) {
    const Index width = smaller(B::Outputs, channels - block);
    for (Index channel = 0; channel < width; channel += B::Lanes) {
      Wide sum{};
      for (Index in = 0; in < channels; ++in) {
        double input = 0;
        for (Index plane = 0; plane < planes; ++plane) input += double{from[plane * plane_stride + in]};
        Wide weight{};
        for (Index tap = 0; tap < 3; ++tap) {
          weight += Wide::load(taps + 2 * tap * squared + block * channels + in * width + channel);
        }
        sum += input * weight;
      }
      sum.store(out + block + channel);
    }
  }
}

}  // namespace
}  // namespace floodtide::kernels::fft
