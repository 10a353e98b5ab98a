// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/winograd_transforms.hpp"

// Transforms of weights and of their gradients, in double precision, because an error in a transformed weight affects all
// tiles.

namespace floodtide::kernels::winograd {
namespace {

/// Vector of B::Lanes doubles.
template <class B>
struct Wide {
  static constexpr int Lanes = B::Lanes;
  typedef double Vector __attribute__((vector_size(sizeof(double) * B::Lanes)));
};
template <class B>
FLOODTIDE_INLINE typename Wide<B>::Vector widened(typename B::Vector value) {
  return __builtin_convertvector(value, typename Wide<B>::Vector);
}

/// Transforms the sum of `parts` cubes [z, y, x] of vectors. The cubes are `part_step` floats apart, and the vectors of a cube
/// `from_step` floats. The result is stored in the cube `to`, or added to it if `Add`; its vectors are `to_step` floats apart.
template <class B, class Z, class Y, class X, bool Add>
FLOODTIDE_BLOCK void transform_cube(const float* from, Index from_step, Index parts, Index part_step, float* to,
                                    Index to_step) {
  using Vector = typename Wide<B>::Vector;
  Vector middle[Z::rows * Y::rows][X::columns];
#pragma GCC unroll 8
  for (int x = 0; x < X::columns; ++x) {
    transform_plane<Wide<B>, Z, Y>(
        [=](int z, int y) FLOODTIDE_LAMBDA {
          const float* at = from + ((z * Y::columns + y) * X::columns + x) * from_step;
          Vector sum = widened<B>(load_unaligned<B>(at));
          for (Index part = 1; part < parts; ++part) sum += widened<B>(load_unaligned<B>(at + part * part_step));
          return sum;
        },
        [&](int z, int y, Vector value) FLOODTIDE_LAMBDA { middle[z * Y::rows + y][x] = value; });
  }
  for (int plane = 0; plane < Z::rows * Y::rows; ++plane) {
    Vector result[X::rows];
    apply<X>(middle[plane], result);
#pragma GCC unroll 8
    for (int x = 0; x < X::rows; ++x) {
      float* const at = to + (plane * X::rows + x) * to_step;
      const auto narrow = __builtin_convertvector(result[x], typename B::Vector);
      store_unaligned<B>(at, Add ? load_unaligned<B>(at) + narrow : narrow);
    }
  }
}

using TransformCube = void (*)(const float*, Index, Index, Index, float*, Index);
template <class B, template <int> class Transform, bool Add>
FLOODTIDE_INLINE TransformCube transform_cube_of(const Tiling& t) {
  return with_tile<1>(t.tile_z, [&]<int Z>() {
    return with_tile<1>(t.tile_y, [&]<int Y>() {
      return with_tile<1>(
          t.tile_x, []<int X>() -> TransformCube { return &transform_cube<B, Transform<Z>, Transform<Y>, Transform<X>, Add>; });
    });
  });
}

template <class B>
void transform_weights(const Tiling& t, const float* weights, Index in, Index out, Index in_begin, Index in_end,
                       float* transformed) {
  constexpr Index group = B::Lanes * B::Vectors;
  const TransformCube transform = transform_cube_of<B, WeightsTransform, false>(t);
  for (Index channel = 0; channel < out; channel += B::Lanes) {
    const Index group_begin = channel / group * group;
    const Index width = smaller(group, out - group_begin);
    for (Index k = in_begin; k < in_end; ++k) {
      transform(weights + k * out + channel, in * out, 1, 0,
                transformed + group_begin * in + k * width + (channel - group_begin), in * out);
    }
  }
}

template <class B>
void transform_products(const Tiling& t, const float* products, Index parts, Index part_floats, Index in, Index out,
                        Index in_begin, Index in_end, float* weight_grad) {
  const TransformCube transform = transform_cube_of<B, WeightsGradTransform, true>(t);
  for (Index k = in_begin; k < in_end; ++k) {
    for (Index channel = 0; channel < out; channel += B::Lanes) {
      transform(products + k * out + channel, in * out, parts, part_floats, weight_grad + k * out + channel, in * out);
    }
  }
}

}  // namespace
}  // namespace floodtide::kernels::winograd
