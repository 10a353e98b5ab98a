// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/simd.hpp"
#include "kernels/conv3d/winograd.hpp"
#include "kernels/conv3d/winograd_matrices.hpp"

// Winograd's minimal filtering in one to three dimensions, written once and instantiated by each instruction-set file.
//
// A block of tiles is transformed into scratch memory that stays in L2, [point][tile][channel]; each point's products are
// one small matrix product, in place; the inverse transform adds bias, mask, residual and ReLU and stores each output once.
// The transform along (z, y) of one x position happens in registers; positions wait in a ring in L1 for the one along x,
// because neighbouring tiles share them.
// Sources: Lavin and Gray, arXiv 1509.09308; Budden et al., ICML 2017; Jia et al., PPoPP 2018.
// Weights are transformed in vectors wider than a register. Nothing outside of this file calls what takes them, so that
// their ABI does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace floodtide::kernels::winograd {
namespace {

/// Register blocks: `Lanes` floats a vector; a product keeps up to Tiles x Vectors sums, the weights' one Channels x Vectors.
/// ForwardTiles and WeightsTiles: see Kernels.
template <int Lanes_, int Vectors_, int Tiles_, int Channels_, int ForwardTiles_, int WeightsTiles_>
struct Blocks {
  static constexpr int Lanes = Lanes_;
  static constexpr int Vectors = Vectors_;
  static constexpr int Tiles = Tiles_;
  static constexpr int Channels = Channels_;
  static constexpr int ForwardTiles = ForwardTiles_;
  static constexpr int WeightsTiles = WeightsTiles_;
  using Vector = typename kernels::Lanes<Lanes_>::Vector;
};

// ---- Transforms -----------------------------------------------------------------------------------------------------

template <class V>
using Scalar = __typeof__(V{}[0]);

/// Where a row's sum starts: at a factor of one if there is any, which saves a multiplication.
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

/// out = matrix * in.
template <class T, int Row = 0, class V>
FLOODTIDE_INLINE void apply(const V (&in)[T::columns], V (&out)[T::rows]) {
  if constexpr (Row < T::rows) {
    constexpr int first = first_term<T>(Row);
    constexpr auto factor = static_cast<Scalar<V>>(T::at(Row, first));
    out[Row] = add_terms<T, Row, 0>(in, factor == 1 ? in[first] : factor * in[first]);
    apply<T, Row + 1>(in, out);
  }
}

/// Transforms a plane of vectors along y and z: read(z, y) for all columns of both, write(z, y, value) for all rows.
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

/// One x position of a tile into the ring: `rows` are Z::columns x Y::columns rows of the volume.
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

/// The transform along x from the ring into the scratch memory, for `planes` points of (z, y): points `stride` floats apart,
/// tiles `step`.
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
      __builtin_prefetch(to + i * stride + step, 1);  // the next tile's: in L2 by now
      slot<B>(to + i * stride) = result[i];
    }
  }
}

/// The inverse: a tile's products to X::rows x positions of `planes` points each.
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

/// What happens to an output before it is stored.
struct Epilogue {
  const float *bias, *mask, *residual;
  float* out;
  bool relu;
};

/// One x position of a tile to the volume. `rows` are the offsets of its output rows, negative outside the volume.
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

// The transforms for each combination of tile extents, picked by number.
using GatherPlane = void (*)(const float* const*, Index, float*);
using GatherLine = void (*)(const float* const*, Index, float*, Index, Index);
using ScatterPlane = void (*)(const float*, const Epilogue&, const Index*, Index, Index);
using ScatterLine = void (*)(const float*, Index, Index, float*);

/// function(tile) as a compile-time number, for tile in [1, kMostTile].
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

// ---- Blocks of tiles ------------------------------------------------------------------------------------------------

constexpr int kMostPoints = points_of(kMostTile);

/// Offset of voxel (z, y, 0)'s row in an activation with this many channels. Positions count from the halo on.
FLOODTIDE_INLINE Index row_offset(const Tiling& t, Index z, Index y, Index channels) {
  return (z * (t.y + 2) + y) * (t.x + 2) * channels;
}

/// A volume to be read tile by tile: the input (overlapping windows that begin in the halo), or an output's gradient.
struct Source {
  const float* data;
  Index channels;
  Index window_z, window_y, window_x;  ///< positions that a tile reads
  Index first_z, first_y, first_x;     ///< position of the first tile's first voxel, counted from the halo on
  Index end_z, end_y, end_x;           ///< positions from here on are taken as zero
};

FLOODTIDE_INLINE Source input_source(const Tiling& t, const float* data, Index channels) {
  const Index z = kernel_extent(t.tile_z) / 2, y = kernel_extent(t.tile_y) / 2, x = kernel_extent(t.tile_x) / 2;
  return {data,  channels, points(t.tile_z), points(t.tile_y), points(t.tile_x), 1 - z,
          1 - y, 1 - x,    t.z + 1 + z,      t.y + 1 + y,      t.x + 1 + x};
}
FLOODTIDE_INLINE Source grad_source(const Tiling& t, const float* data, Index channels) {
  return {data, channels, t.tile_z, t.tile_y, t.tile_x, 1, 1, 1, t.z + 1, t.y + 1, t.x + 1};
}

/// Tiles of one row that follow each other.
struct Segment {
  Index z, y;        ///< of the row of tiles
  Index begin, end;  ///< along x
  Index done;        ///< tiles of the block before these
};

/// Calls body(segment) for the rows that hold tiles [begin, end).
template <class Body>
FLOODTIDE_INLINE void for_each_segment(const Tiling& t, Index begin, Index end, Body body) {
  for (Index tile = begin; tile < end;) {
    const Index row = tile / t.tiles_x, x = tile % t.tiles_x;
    const Index count = smaller(t.tiles_x - x, end - tile);
    body(Segment{row / t.tiles_y, row % t.tiles_y, x, x + count, tile - begin});
    tile += count;
  }
}

/// Transforms the segment's tiles of `source` to [point][tile][channel].
template <class B>
void gather(const Tiling& t, const Source& source, const Segment& segment, GatherPlane plane, GatherLine line, float* ring,
            float* out, Index stride, Index step) {
  const Index planes = points(t.tile_z) * points(t.tile_y);
  const Index slot_floats = planes * B::Lanes;
  const Index z = source.first_z + segment.z * t.tile_z;
  const Index y = source.first_y + segment.y * t.tile_y;
  const float* rows[kMostPoints * kMostPoints];
  for (Index dz = 0; dz < source.window_z; ++dz) {
    for (Index dy = 0; dy < source.window_y; ++dy) {
      // Row (0, 0) is halo: zeros.
      const bool inside = z + dz < source.end_z && y + dy < source.end_y;
      rows[dz * source.window_y + dy] = source.data + (inside ? row_offset(t, z + dz, y + dy, source.channels) : 0);
    }
  }
  for (Index channel = 0; channel < source.channels; channel += B::Lanes) {
    float* slots[kMostPoints];
    for (Index i = 0; i < source.window_x; ++i) slots[i] = ring + i * slot_floats;
    float* to = out + segment.done * step + channel;
    Index known = 0;
    for (Index tile = segment.begin; tile < segment.end; ++tile, to += step) {
      const Index x = source.first_x + tile * t.tile_x;
      for (Index i = known; i < source.window_x; ++i) {
        if (x + i < source.end_x) {
          plane(rows, (x + i) * source.channels + channel, slots[i]);
        } else {
          for (Index k = 0; k < slot_floats; k += B::Lanes) slot<B>(slots[i] + k) = typename B::Vector{};
        }
      }
      line(slots, planes, to, stride, step);
      // What the next tile shares with this one moves to the front.
      known = source.window_x - smaller(t.tile_x, source.window_x);
      float* shifted[kMostPoints];
      for (Index i = 0; i < source.window_x; ++i) shifted[i] = slots[(i + t.tile_x) % source.window_x];
      for (Index i = 0; i < source.window_x; ++i) slots[i] = shifted[i];
    }
  }
}

/// Inverse transform of the segment's products to the output.
template <class B>
void scatter(const ForwardTask& task, const Segment& segment, ScatterPlane plane, ScatterLine line, const float* products,
             Index stride, Index tile_stride) {
  const Tiling& t = task.tiling;
  alignas(64) float middle[kMostTile * kMostPoints * kMostPoints * B::Lanes];
  const Index planes = points(t.tile_z) * points(t.tile_y);
  const Epilogue epilogue{task.bias, task.mask, task.residual, task.out, task.relu_output};
  const Index z = segment.z * t.tile_z;
  const Index y = segment.y * t.tile_y;
  Index rows[kMostTile * kMostTile];
  for (Index dz = 0; dz < t.tile_z; ++dz) {
    for (Index dy = 0; dy < t.tile_y; ++dy) {
      const bool inside = z + dz < t.z && y + dy < t.y;
      rows[dz * t.tile_y + dy] = inside ? row_offset(t, z + dz + 1, y + dy + 1, task.out_channels) : -1;
    }
  }
  const float* from = products + segment.done * tile_stride;
  for (Index tile = segment.begin; tile < segment.end; ++tile, from += tile_stride) {
    const Index x = tile * t.tile_x;
    const Index count = smaller(t.tile_x, t.x - x);
    for (Index channel = 0; channel < task.out_channels; channel += B::Lanes) {
      line(from + channel, stride, planes, middle);
      for (Index i = 0; i < count; ++i) {
        plane(middle + i * planes * B::Lanes, epilogue, rows, (x + i + 1) * task.out_channels + channel, channel);
      }
    }
  }
}

// ---- Products -------------------------------------------------------------------------------------------------------

/// out[tile][0 .. Vectors) = sum over k of x[tile][k] * weights[k]: one point, Tiles tiles.
template <class B, int Tiles, int Vectors>
FLOODTIDE_BLOCK void product_block(const float* x, Index step, Index depth, const float* weights, float* out) {
  using Vector = typename B::Vector;
  Vector sums[Tiles][Vectors];
#pragma GCC unroll 16
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) sums[tile][vector] = Vector{};
  }
  // One pointer for three tiles: x86 addresses reach base, base + step and base + 2 * step.
  const float* base[(Tiles + 2) / 3];
#pragma GCC unroll 8
  for (int i = 0; i < (Tiles + 2) / 3; ++i) base[i] = x + 3 * i * step;
#pragma GCC unroll 4
  for (Index k = 0; k < depth; ++k, weights += Vectors * B::Lanes) {
    Vector weight[Vectors];
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) weight[vector] = load<B>(weights + vector * B::Lanes);
#pragma GCC unroll 16
    for (int tile = 0; tile < Tiles; ++tile) {
      const float value = base[tile / 3][tile % 3 * step + k];
#pragma GCC unroll 4
      for (int vector = 0; vector < Vectors; ++vector) sums[tile][vector] += weight[vector] * value;
    }
  }
#pragma GCC unroll 16
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) slot<B>(out + tile * step + vector * B::Lanes) = sums[tile][vector];
  }
}

template <class B, int Tiles, int Vectors>
FLOODTIDE_INLINE void product_tiles(Index count, const float* x, Index step, Index depth, const float* weights, float* out) {
  if constexpr (Tiles > 1) {
    if (count < Tiles) return product_tiles<B, Tiles - 1, Vectors>(count, x, step, depth, weights, out);
  }
  product_block<B, Tiles, Vectors>(x, step, depth, weights, out);
}

/// All points' products in place: [tile][in] becomes [tile][out], tiles `step` floats apart.
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
      if (task.out_channels > group) {  // the first group's results overwrite what the others read
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

/// sums[channel][0 .. Vectors) (+)= over tiles x[tile][channel] * grad[tile]: one point, Channels input channels.
template <class B, int Channels, int Vectors>
FLOODTIDE_BLOCK void weights_block(const float* x, Index x_step, const float* grad, Index grad_step, Index tiles, bool first,
                                   float* sums, Index sums_step) {
  using Vector = typename B::Vector;
  Vector sum[Channels][Vectors];
#pragma GCC unroll 16
  for (int channel = 0; channel < Channels; ++channel) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) sum[channel][vector] = Vector{};
  }
  for (Index tile = 0; tile < tiles; ++tile, x += x_step, grad += grad_step) {
    Vector gradient[Vectors];
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) gradient[vector] = load<B>(grad + vector * B::Lanes);
#pragma GCC unroll 16
    for (int channel = 0; channel < Channels; ++channel) {
#pragma GCC unroll 4
      for (int vector = 0; vector < Vectors; ++vector) sum[channel][vector] += gradient[vector] * x[channel];
    }
  }
#pragma GCC unroll 16
  for (int channel = 0; channel < Channels; ++channel) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) {
      // A block's sum apart, then added to those before: rounds less than one long sum.
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

/// One point: sums[in][out] (+)= x^T * grad.
template <class B, int Vectors>
FLOODTIDE_INLINE void weights_group(const WeightsTask& task, const float* x, const float* grad, Index tiles, bool first,
                                    float* sums) {
  const Index blocks = (task.in_channels + B::Channels - 1) / B::Channels;
  for (Index block = 0; block < blocks; ++block) {
    const Index begin = part_begin(task.in_channels, blocks, block);
    const Index count = part_begin(task.in_channels, blocks, block + 1) - begin;
    weights_channels<B, B::Channels, Vectors>(count, x + begin, task.in_channels, grad, task.out_channels, tiles, first,
                                              sums + begin * task.out_channels, task.out_channels);
  }
}

template <class B>
void weight_products(const WeightsTask& task, Index tiles, const float* x, Index x_stride, const float* grad, Index grad_stride,
                     bool first) {
  constexpr Index group = B::Lanes * B::Vectors;
  const Index count = points(task.tiling);
  float* sums = task.products;
  for (Index point = 0; point < count; ++point, sums += task.in_channels * task.out_channels) {
    for (Index channel = 0; channel < task.out_channels; channel += group) {
      const float* const from = grad + point * grad_stride + channel;
      if (group <= 16 || task.out_channels - channel >= group) {
        weights_group<B, B::Vectors>(task, x + point * x_stride, from, tiles, first, sums + channel);
      } else {
        weights_group<B, 16 / B::Lanes>(task, x + point * x_stride, from, tiles, first, sums + channel);
      }
    }
  }
}

// ---- Passes ---------------------------------------------------------------------------------------------------------

template <class B>
void forward(const ForwardTask& task) {
  const Tiling& t = task.tiling;
  const GatherPlane plane = gather_plane_of<B, InputTransform>(t, task.relu_input);
  const GatherLine line = gather_line_of<B, InputTransform>(t);
  const ScatterPlane out_plane = scatter_plane_of<B>(t);
  const ScatterLine out_line = scatter_line_of<B>(t);
  const Source input = input_source(t, task.input, task.in_channels);
  float* const transformed = task.scratch + ring_floats(t);
  const Index step = larger(task.in_channels, task.out_channels);
  const Index stride = point_stride(B::ForwardTiles, step);
  for (Index begin = task.tile_begin; begin < task.tile_end; begin += B::ForwardTiles) {
    const Index end = smaller(begin + B::ForwardTiles, task.tile_end);
    for_each_segment(t, begin, end, [&](const Segment& segment) {
      gather<B>(t, input, segment, plane, line, task.scratch, transformed, stride, step);
    });
    products<B>(task, end - begin, transformed, stride, step);
    for_each_segment(t, begin, end, [&](const Segment& segment) {
      scatter<B>(task, segment, out_plane, out_line, transformed, stride, step);
    });
  }
}

template <class B>
void weights(const WeightsTask& task) {
  const Tiling& t = task.tiling;
  const GatherPlane x_plane = gather_plane_of<B, InputTransform>(t, task.relu_input);
  const GatherLine x_line = gather_line_of<B, InputTransform>(t);
  const GatherPlane grad_plane = gather_plane_of<B, OutputGradTransform>(t, false);
  const GatherLine grad_line = gather_line_of<B, OutputGradTransform>(t);
  const Source input = input_source(t, task.input, task.in_channels);
  const Source grad = grad_source(t, task.output_grad, task.out_channels);
  float* const x = task.scratch + ring_floats(t);
  float* const g = x + transformed_floats(t, B::WeightsTiles, task.in_channels);
  const Index x_stride = point_stride(B::WeightsTiles, task.in_channels);
  const Index g_stride = point_stride(B::WeightsTiles, task.out_channels);
  // At the interpolation point 1 along each axis a tile's products are the sum of its gradients.
  const Index ones_x = points(t.tile_x) > 1, ones_y = points(t.tile_y) > 1, ones_z = points(t.tile_z) > 1;
  const Index ones = (ones_z * points(t.tile_y) + ones_y) * points(t.tile_x) + ones_x;
  for (Index channel = 0; channel < task.out_channels; ++channel) task.bias_grad[channel] = 0;
  for (Index begin = task.tile_begin; begin < task.tile_end; begin += B::WeightsTiles) {
    const Index end = smaller(begin + B::WeightsTiles, task.tile_end);
    for_each_segment(t, begin, end, [&](const Segment& segment) {
      gather<B>(t, input, segment, x_plane, x_line, task.scratch, x, x_stride, task.in_channels);
      gather<B>(t, grad, segment, grad_plane, grad_line, task.scratch, g, g_stride, task.out_channels);
    });
    weight_products<B>(task, end - begin, x, x_stride, g, g_stride, begin == task.tile_begin);
    for (Index channel = 0; channel < task.out_channels; channel += B::Lanes) {
      typename B::Vector sum{};
      for (Index tile = 0; tile < end - begin; ++tile) sum += load<B>(g + ones * g_stride + tile * task.out_channels + channel);
      slot<B>(task.bias_grad + channel) += sum;
    }
  }
}

// ---- Transforms of weights --------------------------------------------------------------------------------------------

/// Vectors of as many doubles.
template <class B>
struct Wide {
  static constexpr int Lanes = B::Lanes;
  typedef double Vector __attribute__((vector_size(sizeof(double) * B::Lanes)));
};
template <class B>
FLOODTIDE_INLINE typename Wide<B>::Vector widened(typename B::Vector value) {
  return __builtin_convertvector(value, typename Wide<B>::Vector);
}

/// `from` is a sum of `parts` cubes [z, y, x] of vectors, `part_step` floats apart, their vectors `from_step` floats apart;
/// `to` is one cube, added to if `Add`.
/// In double precision: what the transformed weights lack, every tile lacks.
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

template <class B>
inline constexpr Kernels kernels_of{B::ForwardTiles,        B::WeightsTiles, &transform_weights<B>,
                                    &transform_products<B>, &forward<B>,     &weights<B>};

}  // namespace
}  // namespace floodtide::kernels::winograd
