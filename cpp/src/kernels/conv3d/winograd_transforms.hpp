// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/simd.hpp"
#include "kernels/conv3d/winograd.hpp"
#include "kernels/conv3d/winograd_matrices.hpp"

// Transforms of tiles: first along (z, y) of one x position in registers, then along x from a ring of positions.
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

// ---- Planar tiles ---------------------------------------------------------------------------------------------------
//
// If the kernel has size 1 along z, the points of a tile fit into the registers. One call transforms consecutive tiles of a row
// of tiles, for one vector of channels. It needs no ring.

/// Consecutive tiles of one row of tiles.
struct PlanarTiles {
  Index count;
  Index left;    ///< number of positions from the first one of the first tile to the end of the volume; zeros follow
  Index voxel;   ///< floats from one position to the next
  Index stride;  ///< floats from one point to the next in the scratch memory
  Index step;    ///< floats from one tile to the next in the scratch memory
  Index ahead;   ///< floats from a row to the same row of the next row of tiles, which is prefetched
};

/// Transforms one position along y. Prefetches this position of the rows that only the next row of tiles reads: hardware
/// prefetchers do not recognise them, and waiting for them took most of the time of a transform.
template <class B, class Y, int Shared, bool Relu>
FLOODTIDE_INLINE void gather_column(const float* const* rows, Index offset, bool inside, Index ahead,
                                    typename B::Vector (&out)[Y::rows]) {
  typename B::Vector line[Y::columns];
#pragma GCC unroll 8
  for (int y = 0; y < Y::columns; ++y) {
    if (y >= Shared) __builtin_prefetch(rows[y] + offset + ahead, 0, 2);
    line[y] = inside ? load<B>(rows[y] + offset) : typename B::Vector{};
    if constexpr (Relu) line[y] = rectified<B>(line[y]);
  }
  apply<Y>(line, out);
}

/// Transforms planar tiles into the scratch memory. `rows` are Y::columns rows of the volume, and `offset` is the first
/// position of the first tile. Positions of neighbouring tiles overlap by `SharedY` and `Shared`.
template <class B, class Y, class X, int SharedY, int Shared, bool Relu>
FLOODTIDE_BLOCK void gather_planar(const float* const* rows, Index offset, const PlanarTiles& tiles, float* to) {
  using Vector = typename B::Vector;
  Vector columns[X::columns][Y::rows];
  Index left = tiles.left;
#pragma GCC unroll 8
  for (int x = 0; x < Shared; ++x)
    gather_column<B, Y, SharedY, Relu>(rows, offset + x * tiles.voxel, x < left, tiles.ahead, columns[x]);
  for (Index tile = 0; tile < tiles.count; ++tile, to += tiles.step) {
#pragma GCC unroll 8
    for (int x = Shared; x < X::columns; ++x) {
      gather_column<B, Y, SharedY, Relu>(rows, offset + x * tiles.voxel, x < left, tiles.ahead, columns[x]);
    }
#pragma GCC unroll 8
    for (int y = 0; y < Y::rows; ++y) {
      Vector line[X::columns], result[X::rows];
#pragma GCC unroll 8
      for (int x = 0; x < X::columns; ++x) line[x] = columns[x][y];
      apply<X>(line, result);
#pragma GCC unroll 8
      for (int x = 0; x < X::rows; ++x) slot<B>(to + (y * X::rows + x) * tiles.stride) = result[x];
    }
#pragma GCC unroll 8
    for (int x = 0; x < Shared; ++x) {
#pragma GCC unroll 8
      for (int y = 0; y < Y::rows; ++y) columns[x][y] = columns[x + X::columns - Shared][y];
    }
    offset += (X::columns - Shared) * tiles.voxel;
    left -= X::columns - Shared;
  }
}

/// Inverse transform of planar tiles: writes them to the volume. `rows` are the offsets of the output rows, negative outside
/// the volume. `offset` is the first position of the first tile.
/// @tparam Plain the epilogue has neither mask nor residual
template <class B, class Y, class X, bool Plain>
FLOODTIDE_BLOCK void scatter_planar(const float* from, const Epilogue& epilogue, const Index* rows, Index offset, Index channel,
                                    const PlanarTiles& tiles) {
  using Vector = typename B::Vector;
  const Vector bias = load<B>(epilogue.bias + channel);
  Index left = tiles.left;
  for (Index tile = 0; tile < tiles.count; ++tile, from += tiles.step) {
    Vector middle[X::rows][Y::columns];
#pragma GCC unroll 8
    for (int y = 0; y < Y::columns; ++y) {
      Vector line[X::columns], result[X::rows];
#pragma GCC unroll 8
      for (int x = 0; x < X::columns; ++x) line[x] = load<B>(from + (y * X::columns + x) * tiles.stride);
      apply<X>(line, result);
#pragma GCC unroll 8
      for (int x = 0; x < X::rows; ++x) middle[x][y] = result[x];
    }
#pragma GCC unroll 8
    for (int x = 0; x < X::rows; ++x) {
      Vector result[Y::rows];
      apply<Y>(middle[x], result);
      if (x >= left) break;
#pragma GCC unroll 8
      for (int y = 0; y < Y::rows; ++y) {
        if (rows[y] < 0) continue;
        const Index at = rows[y] + offset + x * tiles.voxel;
        __builtin_prefetch(epilogue.out + at + tiles.ahead, 1);
        Vector value = result[y] + bias;
        if constexpr (!Plain) {
          if (epilogue.mask != nullptr) value = load<B>(epilogue.mask + at) > 0.0F ? value : Vector{};
          if (epilogue.residual != nullptr) value += load<B>(epilogue.residual + at);
        }
        slot<B>(epilogue.out + at) = epilogue.relu ? rectified<B>(value) : value;
      }
    }
    offset += X::rows * tiles.voxel;
    left -= X::rows;
  }
}

// Pointers to the transforms for each combination of tile sizes.
using GatherPlane = void (*)(const float* const*, Index, float*);
using GatherLine = void (*)(const float* const*, Index, float*, Index, Index);
using ScatterPlane = void (*)(const float*, const Epilogue&, const Index*, Index, Index);
using ScatterLine = void (*)(const float*, Index, Index, float*);
using GatherPlanar = void (*)(const float* const*, Index, const PlanarTiles&, float*);
using ScatterPlanar = void (*)(const float*, const Epilogue&, const Index*, Index, Index, const PlanarTiles&);

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

/// Return the transform of planar tiles, or null if tiles are not planar. The kernel then has size 3 along y and x.
template <class B, template <int> class Transform>
FLOODTIDE_INLINE GatherPlanar gather_planar_of(const Tiling& t, bool relu) {
  if (t.tile_z > 1 || t.tile_y == 1 || t.tile_x == 1) return nullptr;
  return with_tile<2>(t.tile_y, [&]<int Y>() {
    return with_tile<2>(t.tile_x, [&]<int X>() -> GatherPlanar {
      // An input tile shares positions with its neighbours, and a tile of gradients does not.
      constexpr int along_y = Transform<Y>::columns - Y, along_x = Transform<X>::columns - X;
      if (relu) return &gather_planar<B, Transform<Y>, Transform<X>, along_y, along_x, true>;
      return &gather_planar<B, Transform<Y>, Transform<X>, along_y, along_x, false>;
    });
  });
}
template <class B>
FLOODTIDE_INLINE ScatterPlanar scatter_planar_of(const Tiling& t, bool plain) {
  if (t.tile_z > 1 || t.tile_y == 1 || t.tile_x == 1) return nullptr;
  return with_tile<2>(t.tile_y, [&]<int Y>() {
    return with_tile<2>(t.tile_x, [&]<int X>() -> ScatterPlanar {
      if (plain) return &scatter_planar<B, OutputTransform<Y>, OutputTransform<X>, true>;
      return &scatter_planar<B, OutputTransform<Y>, OutputTransform<X>, false>;
    });
  });
}

// Transforms of weights and of their gradients, in double precision, because an error in a transformed weight affects all
// tiles.

template <class B>
struct Wide {
  using Vector = Doubles<B::Lanes>;
};

/// Transforms a cube [z, y, x] of vectors, which are `from_step` floats apart. The result is stored in the cube `to`, or added
/// to it if `Add`; its vectors are `to_step` floats apart.
template <class B, class Z, class Y, class X, bool Add>
FLOODTIDE_BLOCK void transform_cube(const float* from, Index from_step, float* to, Index to_step) {
  using Vector = typename Wide<B>::Vector;
  Vector middle[Z::rows * Y::rows][X::columns];
#pragma GCC unroll 8
  for (int x = 0; x < X::columns; ++x) {
    transform_plane<Wide<B>, Z, Y>(
        [=](int z, int y) FLOODTIDE_LAMBDA { return Vector::load(from + ((z * Y::columns + y) * X::columns + x) * from_step); },
        [&](int z, int y, Vector value) FLOODTIDE_LAMBDA { middle[z * Y::rows + y][x] = value; });
  }
  for (int plane = 0; plane < Z::rows * Y::rows; ++plane) {
    Vector result[X::rows];
    apply<X>(middle[plane], result);
#pragma GCC unroll 8
    for (int x = 0; x < X::rows; ++x) {
      float* const at = to + (plane * X::rows + x) * to_step;
      (Add ? Vector::load(at) + result[x] : result[x]).store(at);
    }
  }
}

using TransformCube = void (*)(const float*, Index, float*, Index);
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
      transform(weights + k * out + channel, in * out, transformed + group_begin * in + k * width + (channel - group_begin),
                in * out);
    }
  }
}

template <class B>
void transform_products(const Tiling& t, float* products, Index parts, Index part_floats, Index in, Index out, Index in_begin,
                        Index in_end, float* weight_grad) {
  // The arrays are read from start to end, because L2 is too small for them, and a cube's vectors lie far apart.
  for (Index point = 0; parts > 1 && point < points(t); ++point) {
    for (Index i = (point * in + in_begin) * out; i < (point * in + in_end) * out; i += B::Lanes) {
      auto sum = Doubles<B::Lanes>::load(products + i);
      for (Index part = 1; part < parts; ++part) sum += Doubles<B::Lanes>::load(products + part * part_floats + i);
      sum.store(products + i);
    }
  }
  const TransformCube transform = transform_cube_of<B, WeightsGradTransform, true>(t);
  for (Index k = in_begin; k < in_end; ++k) {
    for (Index channel = 0; channel < out; channel += B::Lanes) {
      transform(products + k * out + channel, in * out, weight_grad + k * out + channel, in * out);
    }
  }
}

}  // namespace
}  // namespace floodtide::kernels::winograd
