// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/winograd.hpp"
#include "kernels/conv3d/winograd_products.hpp"
#include "kernels/conv3d/winograd_transforms.hpp"

// Winograd's minimal filtering in one to three dimensions. Each instruction-set file instantiates these kernels.
//
// A block of tiles is transformed into scratch memory that stays in L2, [point][tile][channel]. The products of each point are
// one small matrix product, in place. The inverse transform applies bias, mask, residual and ReLU, and stores each output once.
//
// The transform along (z, y) of one x position happens in registers. The results are stored in a ring in L1, from which the
// transform along x reads them, because neighbouring tiles share x positions.
// Sources: Lavin and Gray, arXiv 1509.09308; Budden et al., ICML 2017; Jia et al., PPoPP 2018.
namespace floodtide::kernels::winograd {
namespace {

/// Sizes of the register blocks. A vector has `Lanes` floats. A product of forward keeps up to Tiles x Vectors sums, and one of
/// backward-weights up to Channels x Vectors sums. ForwardTiles and WeightsTiles: see Kernels.
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

// ---- Blocks of tiles ------------------------------------------------------------------------------------------------

constexpr int kMostPoints = points_of(kMostTile);

/// Return the offset of row (z, y) in an activation with `channels` channels. Positions include the halo.
FLOODTIDE_INLINE Index row_offset(const Tiling& t, Index z, Index y, Index channels) {
  return (z * (t.y + 2) + y) * (t.x + 2) * channels;
}

/// Volume that is read tile by tile: the input, with overlapping windows that begin in the halo, or the gradient of an output.
struct TiledVolume {
  const float* data;
  Index channels;
  Index window_z, window_y, window_x;  ///< number of positions that a tile reads
  Index first_z, first_y, first_x;     ///< position of the first voxel of the first tile, halo included
  Index end_z, end_y, end_x;           ///< from these positions on, values are zero
};

FLOODTIDE_INLINE TiledVolume input_source(const Tiling& t, const float* data, Index channels) {
  const Index z = kernel_extent(t.tile_z) / 2, y = kernel_extent(t.tile_y) / 2, x = kernel_extent(t.tile_x) / 2;
  return {data,  channels, points(t.tile_z), points(t.tile_y), points(t.tile_x), 1 - z,
          1 - y, 1 - x,    t.z + 1 + z,      t.y + 1 + y,      t.x + 1 + x};
}
FLOODTIDE_INLINE TiledVolume grad_source(const Tiling& t, const float* data, Index channels) {
  return {data, channels, t.tile_z, t.tile_y, t.tile_x, 1, 1, 1, t.z + 1, t.y + 1, t.x + 1};
}

/// Consecutive tiles of one row of tiles.
struct Segment {
  Index z, y;        ///< position of the row of tiles
  Index begin, end;  ///< range of tiles along x
  Index done;        ///< number of tiles of the block before this segment
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

/// Transforms of a volume's tiles. If tiles are planar, `planar` does all of it.
struct Gather {
  GatherPlanar planar;
  GatherPlane plane;
  GatherLine line;
};
template <class B, template <int> class Transform>
FLOODTIDE_INLINE Gather gather_of(const Tiling& t, bool relu) {
  return {gather_planar_of<B, Transform>(t, relu), gather_plane_of<B, Transform>(t, relu), gather_line_of<B, Transform>(t)};
}

/// Transforms the tiles of a segment of `source` to [point][tile][channel].
template <class B>
void gather(const Tiling& t, const TiledVolume& source, const Segment& segment, const Gather& transforms, float* ring,
            float* out, Index stride, Index step) {
  const Index planes = points(t.tile_z) * points(t.tile_y);
  const Index slot_floats = planes * B::Lanes;
  const Index z = source.first_z + segment.z * t.tile_z;
  const Index y = source.first_y + segment.y * t.tile_y;
  const float* rows[kMostPoints * kMostPoints];
  for (Index dz = 0; dz < source.window_z; ++dz) {
    for (Index dy = 0; dy < source.window_y; ++dy) {
      // Row (0, 0) is part of the halo, and therefore zero.
      const bool inside = z + dz < source.end_z && y + dy < source.end_y;
      rows[dz * source.window_y + dy] = source.data + (inside ? row_offset(t, z + dz, y + dy, source.channels) : 0);
    }
  }
  if (transforms.planar != nullptr) {
    const Index x = source.first_x + segment.begin * t.tile_x;
    const PlanarTiles tiles{segment.end - segment.begin,
                            source.end_x - x,
                            source.channels,
                            stride,
                            step,
                            row_offset(t, 0, t.tile_y, source.channels)};
    for (Index channel = 0; channel < source.channels; channel += B::Lanes) {
      transforms.planar(rows, x * source.channels + channel, tiles, out + segment.done * step + channel);
    }
    return;
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
          transforms.plane(rows, (x + i) * source.channels + channel, slots[i]);
        } else {
          for (Index k = 0; k < slot_floats; k += B::Lanes) slot<B>(slots[i] + k) = typename B::Vector{};
        }
      }
      transforms.line(slots, planes, to, stride, step);
      // Positions that the next tile shares with this one move to the front.
      known = source.window_x - smaller(t.tile_x, source.window_x);
      float* shifted[kMostPoints];
      for (Index i = 0; i < source.window_x; ++i) shifted[i] = slots[(i + t.tile_x) % source.window_x];
      for (Index i = 0; i < source.window_x; ++i) slots[i] = shifted[i];
    }
  }
}

/// Inverse transforms. If tiles are planar, `planar` does all of it.
struct Scatter {
  ScatterPlanar planar;
  ScatterPlane plane;
  ScatterLine line;
};

/// Transforms the products of a segment back, and writes the output.
template <class B>
void scatter(const ForwardTask& task, const Segment& segment, const Scatter& transforms, const float* products, Index stride,
             Index tile_stride) {
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
  if (transforms.planar != nullptr) {
    const Index x = segment.begin * t.tile_x;
    const PlanarTiles tiles{segment.end - segment.begin,
                            t.x - x,
                            task.out_channels,
                            stride,
                            tile_stride,
                            row_offset(t, 0, t.tile_y, task.out_channels)};
    for (Index channel = 0; channel < task.out_channels; channel += B::Lanes) {
      transforms.planar(from + channel, epilogue, rows, (x + 1) * task.out_channels + channel, channel, tiles);
    }
    return;
  }
  for (Index tile = segment.begin; tile < segment.end; ++tile, from += tile_stride) {
    const Index x = tile * t.tile_x;
    const Index count = smaller(t.tile_x, t.x - x);
    for (Index channel = 0; channel < task.out_channels; channel += B::Lanes) {
      transforms.line(from + channel, stride, planes, middle);
      for (Index i = 0; i < count; ++i) {
        transforms.plane(middle + i * planes * B::Lanes, epilogue, rows, (x + i + 1) * task.out_channels + channel, channel);
      }
    }
  }
}

// ---- Passes ---------------------------------------------------------------------------------------------------------

template <class B>
void forward(const ForwardTask& task) {
  const Tiling& t = task.tiling;
  const Gather transforms = gather_of<B, InputTransform>(t, task.relu_input);
  const Scatter inverse{scatter_planar_of<B>(t, task.mask == nullptr && task.residual == nullptr), scatter_plane_of<B>(t),
                        scatter_line_of<B>(t)};
  const TiledVolume input = input_source(t, task.input, task.in_channels);
  float* const transformed = task.scratch + ring_floats(t);
  const Index step = larger(task.in_channels, task.out_channels);
  const Index stride = point_stride(B::ForwardTiles, step);
  for (Index begin = task.tile_begin; begin < task.tile_end; begin += B::ForwardTiles) {
    const Index end = smaller(begin + B::ForwardTiles, task.tile_end);
    for_each_segment(t, begin, end, [&](const Segment& segment) {
      gather<B>(t, input, segment, transforms, task.scratch, transformed, stride, step);
    });
    products<B>(task, end - begin, transformed, stride, step);
    for_each_segment(t, begin, end,
                     [&](const Segment& segment) { scatter<B>(task, segment, inverse, transformed, stride, step); });
  }
}

template <class B>
void transform_tiles(const WeightsTask& task) {
  const Tiling& t = task.tiling;
  const Gather of_input = gather_of<B, InputTransform>(t, task.relu_input);
  const Gather of_grad = gather_of<B, OutputGradTransform>(t, false);
  const TiledVolume input = input_source(t, task.input, task.in_channels);
  const TiledVolume grad = grad_source(t, task.output_grad, task.out_channels);
  const TransformedTiles<B> layout(t, task.in_channels, task.out_channels);
  float* const x = task.scratch + layout.x;
  float* const g = task.scratch + layout.grad;
  for_each_segment(t, task.tile_begin, task.tile_end, [&](const Segment& segment) {
    gather<B>(t, input, segment, of_input, task.scratch, x, layout.x_stride, task.in_channels);
    gather<B>(t, grad, segment, of_grad, task.scratch, g, layout.grad_stride, task.out_channels);
  });
  // At the interpolation point 1 along each axis, the transformed gradients of a tile are the sum of its gradients.
  const Index ones_x = points(t.tile_x) > 1, ones_y = points(t.tile_y) > 1, ones_z = points(t.tile_z) > 1;
  const Index ones = (ones_z * points(t.tile_y) + ones_y) * points(t.tile_x) + ones_x;
  for (Index channel = 0; channel < task.out_channels; channel += B::Lanes) {
    typename B::Vector sum{};
    for (Index tile = 0; tile < task.tile_end - task.tile_begin; ++tile) {
      sum += load<B>(g + ones * layout.grad_stride + tile * task.out_channels + channel);
    }
    slot<B>(task.bias_grad + channel) = sum;
  }
}

template <class B>
void weights(const WeightsTask& task) {
  constexpr Index most_channels = 256;
  alignas(64) float bias_grad[most_channels];
  for (Index channel = 0; channel < task.out_channels; ++channel) task.bias_grad[channel] = 0;
  WeightsTask block = task;
  block.bias_grad = bias_grad;
  for (Index begin = task.tile_begin; begin < task.tile_end; begin += B::WeightsTiles) {
    block.tile_begin = begin;
    block.tile_end = smaller(begin + B::WeightsTiles, task.tile_end);
    transform_tiles<B>(block);
    for (Index point = 0; point < points(task.tiling); ++point) {
      multiply_point<B>({task.tiling, task.in_channels, task.out_channels, block.tile_end - begin, point, task.scratch,
                         begin == task.tile_begin, task.products});
    }
    for (Index channel = 0; channel < task.out_channels; channel += B::Lanes) {
      slot<B>(task.bias_grad + channel) += load<B>(bias_grad + channel);
    }
  }
}

template <class B>
inline constexpr Kernels kernels_of{B::ForwardTiles, B::WeightsTiles, &transform_weights<B>, &transform_products<B>,
                                    &forward<B>,     &weights<B>,     &transform_tiles<B>,   &multiply_point<B>};

}  // namespace
}  // namespace floodtide::kernels::winograd
