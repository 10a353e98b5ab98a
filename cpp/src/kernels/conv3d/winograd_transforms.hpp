// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/simd.hpp"
#include "kernels/conv3d/winograd.hpp"
#include "kernels/conv3d/winograd_matrices.hpp"

// Transforms of tiles: first along (z, y) of one x position in registers, then along x from a ring of positions.
//
// The transforms of weights use vectors of doubles that are wider than a register. Only functions of the same instruction-set
// file pass such vectors to each other, so that the ABI warning does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"
namespace floodtide::kernels::winograd {
namespace {

template <class V>
using Scalar = __typeof__(V{}[0]);

/// Return the column at which the sum of a row starts. A column with factor one is preferred, because it saves a
/// multiplication.
template <class T>
constexpr int first_term(int row) {
  int first = -1;
  for (int column = T::columns - 1; column >= 0; --column) {
    if (T::at(row, column) == 1) return column;
    if (T::at(row, column) != 0) first = column;
  }
  return first;
}

template <class T, int Row, int Column, class V>
FLOODTIDE_INLINE V add_terms(const V (&in)[T::columns], V sum) {
  if constexpr (Column == T::columns) {
    return sum;
  } else {
    constexpr auto factor = static_cast<Scalar<V>>(T::at(Row, Column));
    if constexpr (Column == first_term<T>(Row) || factor == 0) return add_terms<T, Row, Column + 1>(in, sum);
    if constexpr (factor == 1) return add_terms<T, Row, Column + 1>(in, sum + in[Column]);
    if constexpr (factor == -1) return add_terms<T, Row, Column + 1>(in, sum - in[Column]);
    return add_terms<T, Row, Column + 1>(in, sum + factor * in[Column]);
  }
}

/// Computes out = matrix * in.
template <class T, int Row = 0, class V>
FLOODTIDE_INLINE void apply(const V (&in)[T::columns], V (&out)[T::rows]) {
  if constexpr (Row < T::rows) {
    constexpr int first = first_term<T>(Row);
    constexpr auto factor = static_cast<Scalar<V>>(T::at(Row, first));
    out[Row] = add_terms<T, Row, 0>(in, factor == 1 ? in[first] : factor * in[first]);
    apply<T, Row + 1>(in, out);
  }
}

/// Transforms a plane of vectors along y and z. Calls read(z, y) for all columns of both, and write(z, y, value) for all rows.
template <class B, class Z, class Y, class Read, class Write>
FLOODTIDE_INLINE void transform_plane(Read read, Write write) {
  using Vector = typename B::Vector;
  Vector middle[Z::columns][Y::rows];
#pragma GCC unroll 8
  for (int z = 0; z < Z::columns; ++z) {
    Vector line[Y::columns];
#pragma GCC unroll 8
    for (int y = 0; y < Y::columns; ++y) line[y] = read(z, y);
    apply<Y>(line, middle[z]);
  }
#pragma GCC unroll 8
  for (int y = 0; y < Y::rows; ++y) {
    Vector line[Z::columns], result[Z::rows];
#pragma GCC unroll 8
    for (int z = 0; z < Z::columns; ++z) line[z] = middle[z][y];
    apply<Z>(line, result);
#pragma GCC unroll 8
    for (int z = 0; z < Z::rows; ++z) write(z, y, result[z]);
  }
}

/// Transforms one x position of a tile along (z, y) into the ring. `rows` are Z::columns x Y::columns rows of the volume.
template <class B, class Z, class Y, bool Relu>
FLOODTIDE_BLOCK void gather_plane(const float* const* rows, Index offset, float* to) {
  transform_plane<B, Z, Y>(
      [=](int z, int y) FLOODTIDE_LAMBDA {
        const typename B::Vector value = load<B>(rows[z * Y::columns + y] + offset);
        if constexpr (Relu) return rectified<B>(value);
        return value;
      },
      [=](int z, int y, typename B::Vector value) FLOODTIDE_LAMBDA { slot<B>(to + (z * Y::rows + y) * B::Lanes) = value; });
}

/// Transforms positions of the ring along x into the scratch memory, for `planes` points of (z, y). In the scratch memory,
/// points are `stride` floats apart, and tiles `step` floats.
template <class B, class X>
FLOODTIDE_BLOCK void gather_line(const float* const* positions, Index planes, float* to, Index stride, Index step) {
  using Vector = typename B::Vector;
  const float* from[X::columns];
#pragma GCC unroll 8
  for (int i = 0; i < X::columns; ++i) from[i] = positions[i];
  for (Index plane = 0; plane < planes; ++plane, to += X::rows * stride) {
    Vector line[X::columns], result[X::rows];
#pragma GCC unroll 8
    for (int i = 0; i < X::columns; ++i) line[i] = load<B>(from[i] + plane * B::Lanes);
    apply<X>(line, result);
#pragma GCC unroll 8
    for (int i = 0; i < X::rows; ++i) {
      __builtin_prefetch(to + i * stride + step, 1);  // memory of the next tile, which may have left L1
      slot<B>(to + i * stride) = result[i];
    }
  }
}

/// Inverse transform along x: transforms the products of a tile to X::rows x positions of `planes` points each.
template <class B, class X>
FLOODTIDE_BLOCK void scatter_line(const float* from, Index stride, Index planes, float* to) {
  using Vector = typename B::Vector;
  const Index step = planes * B::Lanes;
  for (Index plane = 0; plane < planes; ++plane, from += X::columns * stride, to += B::Lanes) {
    Vector line[X::columns], result[X::rows];
#pragma GCC unroll 8
    for (int i = 0; i < X::columns; ++i) line[i] = load<B>(from + i * stride);
    apply<X>(line, result);
#pragma GCC unroll 8
    for (int i = 0; i < X::rows; ++i) slot<B>(to + i * step) = result[i];
  }
}

/// Operations on an output before it is stored.
struct Epilogue {
  const float *bias, *mask, *residual;
  float* out;
  bool relu;
};

/// Inverse transform along (z, y): writes one x position of a tile to the volume. `rows` are the offsets of its output rows,
/// negative outside the volume.
template <class B, class Z, class Y>
FLOODTIDE_BLOCK void scatter_plane(const float* from, const Epilogue& epilogue, const Index* rows, Index offset,
                                   Index channel) {
  using Vector = typename B::Vector;
  const Vector bias = load<B>(epilogue.bias + channel);
  transform_plane<B, Z, Y>([=](int z, int y) FLOODTIDE_LAMBDA { return load<B>(from + (z * Y::columns + y) * B::Lanes); },
                           [&](int z, int y, Vector value) FLOODTIDE_LAMBDA {
                             if (rows[z * Y::rows + y] < 0) return;
                             const Index at = rows[z * Y::rows + y] + offset;
                             value += bias;
                             if (epilogue.mask != nullptr) value = load<B>(epilogue.mask + at) > 0.0F ? value : Vector{};
                             if (epilogue.residual != nullptr) value += load<B>(epilogue.residual + at);
                             slot<B>(epilogue.out + at) = epilogue.relu ? rectified<B>(value) : value;
                           });
}

// Pointers to the transforms for each combination of tile sizes.
using GatherPlane = void (*)(const float* const*, Index, float*);
using GatherLine = void (*)(const float* const*, Index, float*, Index, Index);
using ScatterPlane = void (*)(const float*, const Epilogue&, const Index*, Index, Index);
using ScatterLine = void (*)(const float*, Index, Index, float*);

/// Calls function with `tile` as a template argument, for tile in [1, kMostTile].
template <int Tile, class Function>
FLOODTIDE_INLINE auto with_tile(Index tile, Function function) {
  if constexpr (Tile < kMostTile) {
    if (tile != Tile) return with_tile<Tile + 1>(tile, function);
  }
  return function.template operator()<Tile>();
}

template <class B, template <int> class Transform>
FLOODTIDE_INLINE GatherPlane gather_plane_of(const Tiling& t, bool relu) {
  return with_tile<1>(t.tile_z, [&]<int Z>() {
    return with_tile<1>(t.tile_y, [&]<int Y>() -> GatherPlane {
      if (relu) return &gather_plane<B, Transform<Z>, Transform<Y>, true>;
      return &gather_plane<B, Transform<Z>, Transform<Y>, false>;
    });
  });
}
template <class B, template <int> class Transform>
FLOODTIDE_INLINE GatherLine gather_line_of(const Tiling& t) {
  return with_tile<1>(t.tile_x, []<int X>() -> GatherLine { return &gather_line<B, Transform<X>>; });
}
template <class B>
FLOODTIDE_INLINE ScatterPlane scatter_plane_of(const Tiling& t) {
  return with_tile<1>(t.tile_z, [&]<int Z>() {
    return with_tile<1>(t.tile_y,
                        []<int Y>() -> ScatterPlane { return &scatter_plane<B, OutputTransform<Z>, OutputTransform<Y>>; });
  });
}
template <class B>
FLOODTIDE_INLINE ScatterLine scatter_line_of(const Tiling& t) {
  return with_tile<1>(t.tile_x, []<int X>() -> ScatterLine { return &scatter_line<B, OutputTransform<X>>; });
}

}  // namespace
}  // namespace floodtide::kernels::winograd
