// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fft_chain/transforms.hpp"

// Transforms of a plane (y, x), tile by tile and vector of channels by vector of channels: along x into scratch memory in L1,
// then along y.
namespace floodtide::kernels::fft {
namespace {

/// Index in the scratch memory of a point of a row: the three real points, then real and imaginary parts of the complex ones.
constexpr int real_column(int line) { return line; }
constexpr int complex_column(int line, int part) { return static_cast<int>(kRealLines) + 2 * line + part; }
constexpr int kColumns = static_cast<int>(kPoints);

constexpr Index real_group(int y, int x) { return y * kRealLines + x; }
constexpr Index real_column_group(int y, int x) { return kRealGroups + x * kComplexLines + y; }
constexpr Index complex_column_group(int y, int x) { return kRealGroups + kRealLines * kComplexLines + x * kPoints + y; }

/// Calls body(offset in the plane, offset in the part of the spectrum, channel) for each tile and vector of channels.
template <class B, class Body>
FLOODTIDE_INLINE void for_tiles(const Layout& layout, Body body) {
  Index tile = 0;
  for (Index y = 0; y < layout.tiles_y; ++y) {
    for (Index x = 0; x < layout.tiles_x; ++x, ++tile) {
      for (Index channel = 0; channel < layout.channels; channel += B::Lanes) {
        body(kTile * (y * layout.row_stride() + x * layout.channels) + channel, tile * 2 * layout.channels + channel, channel);
      }
    }
  }
}

template <class B, Inputs inputs>
FLOODTIDE_BLOCK void forward_row(const float* from, Index step, float* to) {
  using Vector = typename B::Vector;
  forward_real<Vector, inputs>(
      [=](int n) FLOODTIDE_LAMBDA {
        const Vector value = load<B>(from + n * step);
        return inputs == Inputs::rectified_tiles ? rectified<B>(value) : value;
      },
      [=](int line, Vector value) FLOODTIDE_LAMBDA { slot<B>(to + real_column(line) * B::Lanes) = value; },
      [=](int line, int part, Vector value) FLOODTIDE_LAMBDA { slot<B>(to + complex_column(line, part) * B::Lanes) = value; });
}

template <class B, Inputs inputs>
FLOODTIDE_BLOCK void forward_real_column(const float* from, int x, float* to, Index group_stride, Index channels) {
  using Vector = typename B::Vector;
  from += real_column(x) * B::Lanes;
  forward_real<Vector, inputs>(
      [=](int n) FLOODTIDE_LAMBDA { return load<B>(from + n * kColumns * B::Lanes); },
      [=](int y, Vector value) FLOODTIDE_LAMBDA { slot<B>(to + real_group(y, x) * group_stride) = value; },
      [=](int y, int part, Vector value)
          FLOODTIDE_LAMBDA { slot<B>(to + real_column_group(y, x) * group_stride + part * channels) = value; });
}

template <class B, Inputs inputs>
FLOODTIDE_BLOCK void forward_complex_column(const float* from, int x, float* to, Index group_stride, Index channels) {
  using Vector = typename B::Vector;
  from += complex_column(x, 0) * B::Lanes;
  to += complex_column_group(0, x) * group_stride;
  forward_complex<Vector, inputs>(
      [=](int n) FLOODTIDE_LAMBDA {
        const float* const at = from + n * kColumns * B::Lanes;
        return Complex<Vector>{load<B>(at), load<B>(at + B::Lanes)};
      },
      [=](int y, Complex<Vector> value) FLOODTIDE_LAMBDA {
        slot<B>(to + y * group_stride) = value.re;
        slot<B>(to + y * group_stride + channels) = value.im;
      });
}

template <class B, Inputs inputs>
void forward_inputs(const ForwardTask& task) {
  const Layout layout = task.layout;
  const Index stride = layout.group_stride();
  // A window begins in the halo.
  const float* const input = task.input + (inputs == Inputs::windows ? 0 : layout.interior());
  float* const spectrum = task.spectrum + task.plane * layout.plane_stride();
  for_tiles<B>(layout, [&](Index at, Index tile, Index) {
    for (int row = 0; row < inputs_of(inputs); ++row) {
      forward_row<B, inputs>(input + at + row * layout.row_stride(), layout.channels, task.scratch + row * kColumns * B::Lanes);
    }
    for (int x = 0; x < kRealLines; ++x)
      forward_real_column<B, inputs>(task.scratch, x, spectrum + tile, stride, layout.channels);
    for (int x = 0; x < kComplexLines; ++x)
      forward_complex_column<B, inputs>(task.scratch, x, spectrum + tile, stride, layout.channels);
  });
}

template <class B>
void forward_plane(const ForwardTask& task) {
  switch (task.inputs) {
    case Inputs::windows: return forward_inputs<B, Inputs::windows>(task);
    case Inputs::tiles: return forward_inputs<B, Inputs::tiles>(task);
    case Inputs::rectified_tiles: return forward_inputs<B, Inputs::rectified_tiles>(task);
  }
}

template <class B>
FLOODTIDE_BLOCK void inverse_real_column(const float* from, int x, float* to, Index group_stride, Index channels) {
  using Vector = typename B::Vector;
  to += real_column(x) * B::Lanes;
  inverse_real<Vector>([=](int y) FLOODTIDE_LAMBDA { return load<B>(from + real_group(y, x) * group_stride); },
                       [=](int y, int part) FLOODTIDE_LAMBDA {
                         return load<B>(from + real_column_group(y, x) * group_stride + part * channels);
                       },
                       [=](int n, Vector value) FLOODTIDE_LAMBDA { slot<B>(to + n * kColumns * B::Lanes) = value; });
}

template <class B>
FLOODTIDE_BLOCK void inverse_complex_column(const float* from, int x, float* to, Index group_stride, Index channels) {
  using Vector = typename B::Vector;
  from += complex_column_group(0, x) * group_stride;
  to += complex_column(x, 0) * B::Lanes;
  inverse_complex<Vector>(
      [=](int y) FLOODTIDE_LAMBDA {
        const float* const at = from + y * group_stride;
        return Complex<Vector>{load<B>(at), load<B>(at + channels)};
      },
      [=](int n, Complex<Vector> value) FLOODTIDE_LAMBDA {
        slot<B>(to + n * kColumns * B::Lanes) = value.re;
        slot<B>(to + (n * kColumns + 1) * B::Lanes) = value.im;
      });
}

/// What inverse_row reads and writes for one row of a tile. `out` may be null, the others only if the function does not use
/// them.
struct Row {
  const float *mask, *residual;
  float *out, *rectified;
  Index step;
};

template <class B, bool Mask, bool Add, bool Rectify>
FLOODTIDE_BLOCK void inverse_row(const float* from, typename B::Vector bias, const Row& row) {
  using Vector = typename B::Vector;
  const float *const mask = row.mask, *const residual = row.residual;
  float *const out = row.out, *const out_rectified = row.rectified;
  const Index step = row.step;
  inverse_real<Vector>([=](int line) FLOODTIDE_LAMBDA { return load<B>(from + real_column(line) * B::Lanes); },
                       [=](int line, int part)
                           FLOODTIDE_LAMBDA { return load<B>(from + complex_column(line, part) * B::Lanes); },
                       [=](int n, Vector value) FLOODTIDE_LAMBDA {
                         value += bias;
                         if constexpr (Mask) value = load<B>(mask + n * step) > 0.0F ? value : Vector{};
                         if constexpr (Add) value += load<B>(residual + n * step);
                         if (out != nullptr) slot<B>(out + n * step) = value;
                         if constexpr (Rectify) slot<B>(out_rectified + n * step) = rectified<B>(value);
                       });
}

template <class B, bool Mask>
FLOODTIDE_INLINE auto inverse_row_of(bool add, bool rectify) {
  return add ? (rectify ? &inverse_row<B, Mask, true, true> : &inverse_row<B, Mask, true, false>)
             : (rectify ? &inverse_row<B, Mask, false, true> : &inverse_row<B, Mask, false, false>);
}

/// Fetches a tile of a plane, given its first voxel.
FLOODTIDE_INLINE void fetch_tile(const Layout& layout, const float* tile) {
  for (int n = 0; n < kTile; ++n) {
    for (Index i = 0; i < kTile * layout.channels; i += 16) __builtin_prefetch(tile + n * layout.row_stride() + i, 1);
  }
}

template <class T>
FLOODTIDE_INLINE T* moved(T* plane, Index offset) {
  return plane == nullptr ? nullptr : plane + offset;
}

template <class B>
void inverse_plane(const InverseTask& task) {
  const Layout layout = task.layout;
  const Index stride = layout.group_stride();
  const float* const spectrum = task.spectrum + task.plane * layout.plane_stride();
  const Index interior = layout.interior();
  const bool add = task.residual != nullptr, rectify = task.out_rectified != nullptr;
  const auto row_of = task.mask != nullptr ? inverse_row_of<B, true>(add, rectify) : inverse_row_of<B, false>(add, rectify);
  for_tiles<B>(layout, [&](Index at, Index tile, Index channel) {
    if (channel == 0) {  // what is needed last
      if (add) fetch_tile(layout, task.residual + interior + at);
      if (task.mask != nullptr) fetch_tile(layout, task.mask + interior + at);
    }
    if (channel == 0) {  // no hardware fetches ahead in as many streams as there are groups
      const float* const next = spectrum + tile + 2 * layout.channels;
      for (Index group = 0; group < kGroups; ++group) {
        for (Index i = 0; i < 2 * layout.channels; i += 16) __builtin_prefetch(next + group * stride + i, 1, 2);
      }
    }
    for (int x = 0; x < kRealLines; ++x) inverse_real_column<B>(spectrum + tile, x, task.scratch, stride, layout.channels);
    for (int x = 0; x < kComplexLines; ++x)
      inverse_complex_column<B>(spectrum + tile, x, task.scratch, stride, layout.channels);
    const typename B::Vector bias = load_unaligned<B>(task.bias + channel);
    for (int n = 0; n < kTile; ++n) {
      const Index to = interior + at + n * layout.row_stride();
      const Row row{moved(task.mask, to), moved(task.residual, to), moved(task.out, to), moved(task.out_rectified, to),
                    layout.channels};
      row_of(task.scratch + n * kColumns * B::Lanes, bias, row);
    }
  });
}

}  // namespace
}  // namespace floodtide::kernels::fft
