// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/bf16.hpp"
#include "kernels/conv3d/simd.hpp"

// Convolutions with bfloat16 operands and float sums. Each instruction-set file instantiates them with its engine.
//
// An engine computes one block of sums: rows x 16 or 32 outputs. Its operation is
//   c[row][output] (+)= sum over lists and pairs of a[list][row][pair][i] * b[list][pair][output][i], i = 0 and 1,
// in the layout of the tile instruction TDPBF16PS. Everything else is the same for all engines. An engine has
//   rows<Panels>()       most rows of a block with 16 * Panels outputs; blocks of forward have this number of rows
//   part_of<Panels>(n)   rows of the next block if n rows are left, a multiple of 16
//   multiply<Panels>(product, rows)
//
// Forward: a row is a voxel, a list is a kernel row, and its pairs run over the channels of the voxels along x. Blocks run
// along whole planes; sums at positions of the halo are dropped. Backward-weights: a row is an input channel, and pairs run
// over the positions of a plane. A tap is an offset into the transposed input. Gradients are zero in the halo.
//
// With an engine that reads whole tiles, the zeros after the last pair are multiplied with neighbouring values, so that a value
// that is not finite spreads further than in the reference.
namespace floodtide::kernels::bf16 {
namespace {

using F16 = Lanes<16>;
using Floats = F16::Vector;
typedef std::uint32_t Bits __attribute__((vector_size(64), may_alias));
typedef std::uint16_t Halves __attribute__((vector_size(32), may_alias, aligned(2)));

struct Wide {  // block traits for the helpers in simd.hpp
  static constexpr int Lanes = 16;
  using Vector = Floats;
};

/// Return the numbers rounded to bfloat16, to nearest even, in the low half of each lane. NaN stays NaN.
FLOODTIDE_INLINE Bits rounded(Floats value) {
  const auto bits = Bits(value);
  const Bits even = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return value != value ? (bits >> 16) | 0x40U : even;
}
FLOODTIDE_INLINE std::uint16_t rounded_one(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}
FLOODTIDE_INLINE void store_halves(std::uint16_t* to, Bits values) {
  *reinterpret_cast<Halves*>(to) = __builtin_convertvector(values, Halves);
}

/// Operands and result of an engine's operation.
struct Product {
  const std::uint16_t* const* a;  ///< [lists]; row 0 of each
  Index a_stride;                 ///< bfloat16 numbers from row to row
  const std::uint16_t* b;         ///< pair 0 of list 0, panel 0
  Index b_list, b_panel;          ///< bfloat16 numbers from list to list, and from panel to panel
  Index lists, pairs;             ///< `b` has stored pairs up to a multiple of 16; further pairs of `b` are zero
  float* c;
  Index c_stride;
  bool add;  ///< true: add to `c`; false: overwrite it
};

// ---- Conversions ----------------------------------------------------------------------------------------------------

inline void pack(const PackTask& task) {
  const Plane& p = task.plane;
  const Index channels = converted_channels(task.in), pairs = stored_pairs(p.kernel_x, channels);
  const Index panels = (task.out + kPanel - 1) / kPanel;
  for (Index panel = 0; panel < panels; ++panel) {
    std::uint16_t* const to = task.packed + (panel * p.rows_of_kernel() + task.kernel_row) * pairs * 2 * kPanel;
    const Index outputs = smaller(kPanel, task.out - panel * kPanel);
    for (Index i = 0; i < pairs * 2 * kPanel; ++i) to[i] = 0;
    for (Index kx = 0; kx < p.kernel_x; ++kx) {
      for (Index in = 0; in < task.in; ++in) {
        const Index k = kx * channels + in;
        const float* const from =
            task.weights + ((task.kernel_row * p.kernel_x + kx) * task.in + in) * task.out + panel * kPanel;
        std::uint16_t* const pair = to + k / 2 * 2 * kPanel + k % 2;
        for (Index o = 0; o < outputs; ++o) pair[2 * o] = rounded_one(from[o]);
      }
    }
  }
}

inline void convert(const ConvertTask& task) {
  const float* from = task.input + task.voxel_begin * task.stored;
  std::uint16_t* to = task.out + task.voxel_begin * task.channels;
  const auto value = [&](const float* p)
                         FLOODTIDE_LAMBDA { return rounded(task.relu ? rectified<Wide>(load<Wide>(p)) : load<Wide>(p)); };
  if (task.channels == task.stored) {
    const Index count = (task.voxel_end - task.voxel_begin) * task.stored;
    for (Index i = 0; i < count; i += 16) store_halves(to + i, value(from + i));
    return;
  }
  for (Index voxel = task.voxel_begin; voxel < task.voxel_end; ++voxel, from += task.stored, to += task.channels) {
    for (Index c = 0; c < task.channels; c += 16) {
      alignas(64) std::uint16_t halves[16];
      store_halves(halves, value(from + c));
      for (Index i = 0; i < smaller(16, task.channels - c); ++i) to[c + i] = halves[i];
    }
  }
}

inline void transpose(const TransposeTask& task) {
  const Plane& p = task.plane;
  const Index stride = channel_stride(p), voxels = p.voxels();
  std::uint16_t* const out = task.out + task.z * task.stored * stride;
  const float* const input = task.input + task.z * voxels * task.stored;
  for (Index begin = task.voxel_begin; begin < task.voxel_end; begin += kTile) {
    const Index count = smaller(kTile, voxels - begin);  // the rest of the stride becomes zero
    for (Index c = 0; c < task.stored; c += 16) {
      alignas(64) std::uint16_t block[kTile][16];
      for (Index i = 0; i < kTile; ++i) {
        Floats value{};
        if (i < count) value = load<Wide>(input + (begin + i) * task.stored + c);
        store_halves(block[i], rounded(task.relu ? rectified<Wide>(value) : value));
      }
      for (Index channel = 0; channel < 16; ++channel) {
        std::uint16_t* const to = out + (c + channel) * stride + begin;
        for (Index i = 0; i < kTile; ++i) to[i] = block[i][channel];
      }
    }
  }
}

inline void pair(const PairTask& task) {
  const Plane& p = task.plane;
  const Index z = task.segment / segments(p), begin = task.segment % segments(p) * kSegment;
  const Index padded = padded_positions(p), positions = p.positions(), end = smaller(begin + kSegment, padded);
  const float* const grad = task.output_grad + ((z + 1) * p.voxels() + p.first()) * task.stored;
  for (Index c = 0; c < task.stored; c += kPanel) {
    std::uint16_t* to = task.out + (z * task.stored + c) * padded + begin * kPanel;
    Floats sum{};
    for (Index i = begin; i < end; i += 2, to += 2 * kPanel) {
      Floats even{}, odd{};
      if (i < positions) even = load<Wide>(grad + i * task.stored + c);
      if (i + 1 < positions) odd = load<Wide>(grad + (i + 1) * task.stored + c);
      sum += even + odd;
      *reinterpret_cast<Bits*>(to) = rounded(even) | (rounded(odd) << 16);
    }
    slot<Wide>(task.bias_grad + c) = sum;
  }
}

// ---- Passes ---------------------------------------------------------------------------------------------------------

/// Adds bias and residual to the sums of a block, applies mask and ReLU, and writes the voxels of the interior.
FLOODTIDE_INLINE void finish(const ForwardTask& task, Index z, Index position, Index rows, Index channel, Index panels,
                             const float* sums) {
  const Plane& p = task.plane;
  const Index voxel = (z + 1) * p.voxels() + p.first() + position;
  Index x = position % p.row();
  rows = smaller(rows, p.positions() - position);
  for (Index row = 0; row < rows; ++row, ++x) {
    if (x == p.row()) x = 0;
    if (x >= p.x) continue;
    for (Index panel = 0; panel < panels; ++panel) {
      const Index at = (voxel + row) * task.stored_out + channel + panel * kPanel;
      Floats value = load<Wide>(sums + (row * panels + panel) * kPanel) + load<Wide>(task.bias + channel + panel * kPanel);
      if (task.mask != nullptr) value = load<Wide>(task.mask + at) > 0.0F ? value : Floats{};
      if (task.residual != nullptr) value += load<Wide>(task.residual + at);
      if (task.relu_output) value = rectified<Wide>(value);
      slot<Wide>(task.out + at) = value;
    }
  }
}

template <class Engine, int Panels>
FLOODTIDE_INLINE void forward_panels(const ForwardTask& task, Engine& engine, Index block, Index channel) {
  const Plane& p = task.plane;
  alignas(64) float sums[Engine::template rows<Panels>() * Panels * kPanel];
  const std::uint16_t* lists[9];
  Product product{};
  product.a = lists;
  product.a_stride = task.channels;
  product.pairs = row_pairs(p.kernel_x, task.channels);
  product.lists = p.rows_of_kernel();
  product.b_list = stored_pairs(p.kernel_x, task.channels) * 2 * kPanel;
  product.b_panel = product.lists * product.b_list;
  product.b = task.weights + channel / kPanel * product.b_panel;
  product.c = sums;
  product.c_stride = Panels * kPanel;
  const Index in_plane = blocks(p, block);
  for (Index index = task.block_begin; index < task.block_end; ++index) {
    const Index z = index / in_plane, position = index % in_plane * block;
    const Index voxel = (z + 1) * p.voxels() + p.first() + position;
    for (Index kz = 0; kz < p.kernel_z; ++kz) {
      for (Index ky = 0; ky < p.kernel_y; ++ky) {
        const Index neighbour = voxel + (kz - p.kernel_z / 2) * p.voxels() + (ky - p.kernel_y / 2) * p.row() - p.kernel_x / 2;
        lists[kz * p.kernel_y + ky] = task.input + neighbour * task.channels;
      }
    }
    engine.template multiply<Panels>(product, block);
    finish(task, z, position, block, channel, Panels, sums);
  }
}

template <class Engine>
std::int64_t forward_block(std::int64_t stored_out) {
  return stored_out > kPanel ? Engine::template rows<2>() : Engine::template rows<1>();
}

template <class Engine>
void forward(const ForwardTask& task) {
  Engine engine;
  const Index block = forward_block<Engine>(task.stored_out);
  for (Index channel = 0; channel < task.stored_out;) {
    if (task.stored_out - channel >= 2 * kPanel) {
      forward_panels<Engine, 2>(task, engine, block, channel);
      channel += 2 * kPanel;
    } else {
      forward_panels<Engine, 1>(task, engine, block, channel);
      channel += kPanel;
    }
  }
}

template <class Engine>
void weights(const WeightsTask& task) {
  Engine engine;
  const Plane& p = task.plane;
  const Index in_plane = segments(p);
  const std::uint16_t* list = nullptr;
  Product product{};
  product.a = &list;
  product.a_stride = channel_stride(p);
  product.b_panel = padded_positions(p) * kPanel;
  product.lists = 1;
  product.c_stride = task.stored_out;
  for (Index index = task.segment_begin; index < task.segment_end; ++index) {
    const Index z = index / in_plane, begin = index % in_plane * kSegment;
    product.add = index > task.segment_begin;
    product.pairs = smaller(kSegment, padded_positions(p) - begin) / 2;
    for (Index tap = 0; tap < p.taps(); ++tap) {
      const Index kz = tap / (p.kernel_y * p.kernel_x), ky = tap / p.kernel_x % p.kernel_y, kx = tap % p.kernel_x;
      const Index plane = z + 1 + kz - p.kernel_z / 2;
      const Index voxel = p.first() + begin + (ky - p.kernel_y / 2) * p.row() + kx - p.kernel_x / 2;
      for (Index out = task.out_begin; out < task.out_end;) {
        const bool two = task.out_end - out >= 2 * kPanel;
        product.b = task.output_grad + (z * task.stored_out + out) * padded_positions(p) + begin * kPanel;
        for (Index in = 0; in < task.stored_in;) {
          list = task.input + (plane * task.stored_in + in) * product.a_stride + voxel;
          product.c = task.sums + (tap * task.stored_in + in) * task.stored_out + out;
          const Index left = task.stored_in - in;
          const Index rows = two ? Engine::template part_of<2>(left) : Engine::template part_of<1>(left);
          if (two) {
            engine.template multiply<2>(product, rows);
          } else {
            engine.template multiply<1>(product, rows);
          }
          in += rows;
        }
        out += two ? 2 * kPanel : kPanel;
      }
    }
  }
}

template <class Engine>
inline constexpr Kernels kernels_of{&forward_block<Engine>, &pack, &convert, &forward<Engine>, &transpose, &pair,
                                    &weights<Engine>};

}  // namespace
}  // namespace floodtide::kernels::bf16
