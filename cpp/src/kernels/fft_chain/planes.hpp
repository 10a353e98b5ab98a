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

template <class B>
FLOODTIDE_BLOCK void forward_row(const float* from, Index step, float* to) {
  using Vector = typename B::Vector;
  forward_real<Vector>([=](int n) FLOODTIDE_LAMBDA { return load<B>(from + n * step); },
                       [=](int line, Vector value) FLOODTIDE_LAMBDA { slot<B>(to + real_column(line) * B::Lanes) = value; },
                       [=](int line, int part, Vector value)
                           FLOODTIDE_LAMBDA { slot<B>(to + complex_column(line, part) * B::Lanes) = value; });
}

template <class B>
FLOODTIDE_BLOCK void forward_real_column(const float* from, int x, float* to, Index group_stride, Index channels) {
  using Vector = typename B::Vector;
  from += real_column(x) * B::Lanes;
  forward_real<Vector>([=](int n) FLOODTIDE_LAMBDA { return load<B>(from + n * kColumns * B::Lanes); },
                       [=](int y, Vector value) FLOODTIDE_LAMBDA { slot<B>(to + real_group(y, x) * group_stride) = value; },
                       [=](int y, int part, Vector value) FLOODTIDE_LAMBDA {
                         slot<B>(to + real_column_group(y, x) * group_stride + part * channels) = value;
                       });
}

template <class B>
FLOODTIDE_BLOCK void forward_complex_column(const float* from, int x, float* to, Index group_stride, Index channels) {
  using Vector = typename B::Vector;
  from += complex_column(x, 0) * B::Lanes;
  to += complex_column_group(0, x) * group_stride;
  forward_complex<Vector>(
      [=](int n) FLOODTIDE_LAMBDA {
        const float* const at = from + n * kColumns * B::Lanes;
        return Complex<Vector>{load<B>(at), load<B>(at + B::Lanes)};
      },
      [=](int y, Complex<Vector> value) FLOODTIDE_LAMBDA {
        slot<B>(to + y * group_stride) = value.re;
        slot<B>(to + y * group_stride + channels) = value.im;
      });
}

template <class B>
void forward_plane(const ForwardTask& task) {
  const Layout layout = task.layout;
  const Index stride = layout.group_stride();
  float* const spectrum = task.spectrum + task.plane * layout.plane_stride();
  for_tiles<B>(layout, [&](Index at, Index tile, Index) {
    for (int row = 0; row < kPoints; ++row) {
      forward_row<B>(task.input + at + row * layout.row_stride(), layout.channels, task.scratch + row * kColumns * B::Lanes);
    }
    for (int x = 0; x < kRealLines; ++x) forward_real_column<B>(task.scratch, x, spectrum + tile, stride, layout.channels);
    for (int x = 0; x < kComplexLines; ++x)
      forward_complex_column<B>(task.scratch, x, spectrum + tile, stride, layout.channels);
  });
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

/// Where inverse_row stores a row of a tile; null: not stored.
struct Row {
  float *stream, *rectified;
  Index step;
};

template <class B, bool Add, bool Rectified>
FLOODTIDE_BLOCK void inverse_row(const float* from, typename B::Vector bias, const Row& row) {
  using Vector = typename B::Vector;
  float *const stream = row.stream, *const out = row.rectified;
  const Index step = row.step;
  inverse_real<Vector>([=](int line) FLOODTIDE_LAMBDA { return load<B>(from + real_column(line) * B::Lanes); },
                       [=](int line, int part)
                           FLOODTIDE_LAMBDA { return load<B>(from + complex_column(line, part) * B::Lanes); },
                       [=](int n, Vector value) FLOODTIDE_LAMBDA {
                         value += bias;
                         if constexpr (Add) value += load<B>(stream + n * step);
                         if (stream != nullptr) slot<B>(stream + n * step) = value;
                         if constexpr (Rectified) slot<B>(out + n * step) = rectified<B>(value);
                       });
}

template <class B>
void inverse_plane(const InverseTask& task) {
  const Layout layout = task.layout;
  const Index stride = layout.group_stride();
  const float* const spectrum = task.spectrum + task.plane * layout.plane_stride();
  const Index interior = layout.row_stride() + layout.channels;
  const bool add = task.add_stream, rectify = task.out_rectified != nullptr;
  const auto row_of = add ? (rectify ? &inverse_row<B, true, true> : &inverse_row<B, true, false>)
                          : (rectify ? &inverse_row<B, false, true> : &inverse_row<B, false, false>);
  for_tiles<B>(layout, [&](Index at, Index tile, Index channel) {
    if (add && channel == 0) {  // the residuals are needed last
      for (int n = 0; n < kTile; ++n) {
        const float* const row = task.stream + interior + at + n * layout.row_stride();
        for (Index i = 0; i < kTile * layout.channels; i += 16) __builtin_prefetch(row + i, 1);
      }
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
    const typename B::Vector bias = load<B>(task.bias + channel);
    for (int n = 0; n < kTile; ++n) {
      const Index to = interior + at + n * layout.row_stride();
      const Row row{task.stream == nullptr ? nullptr : task.stream + to, rectify ? task.out_rectified + to : nullptr,
                    layout.channels};
      row_of(task.scratch + n * kColumns * B::Lanes, bias, row);
    }
  });
}

}  // namespace
}  // namespace floodtide::kernels::fft
