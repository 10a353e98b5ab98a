// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/bf16_chain/tasks.hpp"
#include "kernels/conv3d/simd.hpp"

// Convolutions by tile instructions: sums of 32 x 32 numbers in four tiles, two tiles of each operand. `Tiles` has eight tiles
// of 16 rows of 64 bytes and the operation of TDPBF16PS,
//   sum[row][n] += sum over pairs and i of a[row][pair][i] * b[pair][n][i], i = 0 and 1.
// The processor provides the tiles, or a test emulates them.
//
// Forward and backward-data: a row is a voxel, n an output channel, pairs are input channels. Blocks run along whole planes,
// and sums at positions of the halo are dropped. Gradients by weights: a row is an output channel, n an input channel, pairs
// are positions of a plane. Gradients are transposed. A tap is an offset into the inputs. Their pairs begin at even voxels. For
// odd offsets, the transposed gradients are shifted by one position instead, so that rows of tiles never cross a cache line.
namespace floodtide::kernels::bf16 {
namespace {

using Floats = Lanes<16>::Vector;
typedef std::uint16_t Halves __attribute__((vector_size(64), may_alias));
typedef std::int16_t Signed __attribute__((vector_size(32), may_alias));
typedef std::uint32_t Bits __attribute__((vector_size(64), may_alias));
typedef std::int32_t Integers __attribute__((vector_size(64), may_alias));

struct Wide {  // block traits for the helpers in simd.hpp
  static constexpr int Lanes = 16;
  using Vector = Floats;
};

constexpr Index kHalf = sizeof(std::uint16_t), kFloat = sizeof(float);
constexpr Index kTileHalves = kPanel * kTile;  // bfloat16 numbers of a tile
constexpr Index kSegment = 40;                 // blocks of positions whose products are summed together in tiles

FLOODTIDE_INLINE Halves load_halves(const std::uint16_t* p) { return *reinterpret_cast<const Halves*>(p); }
FLOODTIDE_INLINE void store_halves(std::uint16_t* p, Halves value) { *reinterpret_cast<Halves*>(p) = value; }

/// Return a0 b0 a1 b1 ..., of the first or second half of the lanes.
FLOODTIDE_INLINE Halves zip_low(Halves a, Halves b) {
  return __builtin_shufflevector(a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9, 41, 10, 42, 11, 43, 12,
                                 44, 13, 45, 14, 46, 15, 47);
}
FLOODTIDE_INLINE Halves zip_high(Halves a, Halves b) {
  return __builtin_shufflevector(a, b, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58,
                                 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
}

/// Transposes 16 x 16 numbers of 32 bits.
FLOODTIDE_INLINE void transpose(Bits (&rows)[16]) {
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
    Bits next[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] =
          __builtin_shufflevector(rows[i], rows[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) rows[i] = next[i];
  }
}

/// 32 x 32 sums in tiles 0 to 3.
template <class Tiles>
class Sums {
 public:
  FLOODTIDE_INLINE void clear() {
    tiles_.template zero<0>();
    tiles_.template zero<1>();
    tiles_.template zero<2>();
    tiles_.template zero<3>();
  }
  FLOODTIDE_INLINE void load(const float* from, Index stride) {
    tiles_.template load<0>(from, stride * kFloat);
    tiles_.template load<1>(from + kPanel, stride * kFloat);
    tiles_.template load<2>(from + kPanel * stride, stride * kFloat);
    tiles_.template load<3>(from + kPanel * stride + kPanel, stride * kFloat);
  }
  FLOODTIDE_INLINE void store(float* to, Index stride) {
    tiles_.template store<0>(to, stride * kFloat);
    tiles_.template store<1>(to + kPanel, stride * kFloat);
    tiles_.template store<2>(to + kPanel * stride, stride * kFloat);
    tiles_.template store<3>(to + kPanel * stride + kPanel, stride * kFloat);
  }
  /// Adds the products of 32 rows of `a` and 32 columns of `b`. The second tile of an operand begins `a_next` or `b_next`
  /// numbers after the first one.
  FLOODTIDE_INLINE void add_products(const std::uint16_t* a, Index a_next, Index a_stride, const std::uint16_t* b, Index b_next,
                                     Index b_stride) {
    tiles_.template load<6>(b, b_stride * kHalf);
    tiles_.template load<7>(b + b_next, b_stride * kHalf);
    tiles_.template load<4>(a, a_stride * kHalf);
    tiles_.template dot<0, 4, 6>();
    tiles_.template dot<1, 4, 7>();
    tiles_.template load<5>(a + a_next, a_stride * kHalf);
    tiles_.template dot<2, 5, 6>();
    tiles_.template dot<3, 5, 7>();
  }

 private:
  Tiles tiles_;
};

// ---- Conversions ----------------------------------------------------------------------------------------------------

template <class Tiles>
void pack(const PackTask& task) {
  const Index channels = task.layout.channels, blocks = channels / kTile;
  for (Index tap = task.tap_begin; tap < task.tap_end; ++tap) {
    for (Index in = 0; in < channels; in += 2) {
      const float* const even = task.weights + (tap * channels + in) * channels;
      for (Index out = 0; out < channels; out += kPanel) {
        const Halves both = Tiles::rounded(load_unaligned<Wide>(even + out), load_unaligned<Wide>(even + channels + out));
        const Index tile = ((out / kTile * kTaps + tap) * blocks + in / kTile) * 2 + out / kPanel % 2;
        const Halves odd = __builtin_shufflevector(both, both, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                                   0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        store_halves(task.packed + tile * kTileHalves + in % kTile * kPanel, zip_low(both, odd));
      }
    }
  }
}

template <class Tiles>
void round(const RoundTask& task) {
  const Index size = task.layout.plane_voxels() * task.layout.channels, begin = (task.plane + 1) * size;
  for (Index i = begin; i < begin + size; i += kTile) {
    store_halves(task.out + i, Tiles::rounded(load<Wide>(task.input + i), load<Wide>(task.input + i + kPanel)));
  }
}

// ---- Forward and backward-data --------------------------------------------------------------------------------------

/// Adds bias and residual to the sums of `count` voxels, applies mask and ReLU, and writes the results.
template <class Tiles>
FLOODTIDE_INLINE void finish_row(const ConvolveTask& task, Index at, Index count, Index channel, const float* sums) {
  const Index channels = task.layout.channels;
  const Floats low_bias = load_unaligned<Wide>(task.bias + channel);
  const Floats high_bias = load_unaligned<Wide>(task.bias + channel + kPanel);
  for (Index i = 0; i < count; ++i, at += channels, sums += kTile) {
    Floats low = load<Wide>(sums) + low_bias, high = load<Wide>(sums + kPanel) + high_bias;
    if (task.mask != nullptr) {
      const auto* const mask = reinterpret_cast<const Signed*>(task.mask + at);
      low = __builtin_convertvector(mask[0], Integers) > 0 ? low : Floats{};
      high = __builtin_convertvector(mask[1], Integers) > 0 ? high : Floats{};
    }
    if (task.residual != nullptr) {
      low += load<Wide>(task.residual + at);
      high += load<Wide>(task.residual + at + kPanel);
    }
    if (task.out != nullptr) {
      slot<Wide>(task.out + at) = low;
      slot<Wide>(task.out + at + kPanel) = high;
    }
    if (task.rectify) {
      low = rectified<Wide>(low);
      high = rectified<Wide>(high);
    }
    if (task.out_rounded != nullptr) store_halves(task.out_rounded + at, Tiles::rounded(low, high));
  }
}

/// Fetches what the next plane and the next block read and write, for four voxels of this block.
FLOODTIDE_INLINE void fetch_ahead(const ConvolveTask& task, Index at) {
  const Index channels = task.layout.channels;
  const std::uint16_t* const next_plane = task.input + at + 2 * task.layout.plane_voxels() * channels;
  at += kTile * channels;
  for (Index i = 0; i < 4; ++i, at += channels) {
    __builtin_prefetch(next_plane + i * channels, 0, 2);
    if (task.out != nullptr) {
      __builtin_prefetch(task.out + at, 1, 3);
      __builtin_prefetch(task.out + at + kPanel, 1, 3);
    }
    if (task.out_rounded != nullptr) __builtin_prefetch(task.out_rounded + at, 1, 3);
    if (task.mask != nullptr) __builtin_prefetch(task.mask + at, 0, 3);
  }
}

template <class Tiles>
void convolve(const ConvolveTask& task) {
  Sums<Tiles> tiles;
  alignas(64) float sums[kTile * kTile];
  const Layout& p = task.layout;
  const Index channels = p.channels, row = p.row(), origin = (task.plane + 1) * p.plane_voxels() + p.first();
  for (Index begin = 0; begin < p.positions(); begin += kTile) {
    for (Index channel = 0; channel < channels; channel += kTile) {
      const std::uint16_t* b = task.weights + channel / kTile * kTaps * channels * kTile;
      tiles.clear();
      for (Index line = 0; line < 9; ++line) {
        const Index voxel = origin + begin + (line / 3 - 1) * p.plane_voxels() + (line % 3 - 1) * row - 1;
        const std::uint16_t* a = task.input + voxel * channels;
        if (line < 8) fetch_ahead(task, (origin + begin + 4 * line) * channels + channel);
        for (Index block = 0; block < 3 * channels; block += kTile, a += kTile, b += 2 * kTileHalves) {
          tiles.add_products(a, kPanel * channels, channels, b, kTileHalves, kTile);
        }
      }
      tiles.store(sums, kTile);
      const Index end = smaller(begin + kTile, p.positions());
      for (Index from = begin; from < end;) {  // one row of the volume after the other
        const Index x = from % row, to = smaller(end, from - x + row);
        finish_row<Tiles>(task, (origin + from) * channels + channel, smaller(to - from, p.x - x), channel,
                          sums + (from - begin) * kTile);
        from = to;
      }
    }
  }
}

// ---- Gradients by weights -------------------------------------------------------------------------------------------

/// Pairs the voxels of a plane of inputs.
inline void pair_plane(const Layout& p, const std::uint16_t* plane, std::uint16_t* out) {
  const Index size = p.paired_size();
  for (Index pair = 0; pair < size; pair += 2 * p.channels) {
    for (Index c = 0; c < p.channels; c += kTile) {
      const Halves a = load_halves(plane + pair + c), b = load_halves(plane + pair + p.channels + c);
      store_halves(out + pair + 2 * c, zip_low(a, b));
      store_halves(out + pair + 2 * c + kTile, zip_high(a, b));
    }
  }
}

/// Transposes a plane of gradients to `out` and, later by one position, to `out_shifted`. Adds them to the sums of biases.
inline void transpose_plane(const Layout& p, const std::uint16_t* grad, std::uint16_t* out, std::uint16_t* out_shifted,
                            float* bias_sums) {
  for (Index block = 0; block < p.gradient_blocks(); ++block) {
    const Index count = smaller(kTile, p.positions() - block * kTile);
    const std::uint16_t* const from = grad + block * kTile * p.channels;
    for (Index c = 0; c < p.channels; c += kPanel) {
      Bits rows[16];
      Floats sum = load<Wide>(bias_sums + c);
#pragma GCC unroll 16
      for (Index i = 0; i < 16; ++i) {
        typedef std::uint16_t Sixteen __attribute__((vector_size(32), may_alias));
        const auto at = [&](Index voxel) FLOODTIDE_LAMBDA {
          if (voxel >= count) return Bits{};
          return __builtin_convertvector(*reinterpret_cast<const Sixteen*>(from + voxel * p.channels + c), Bits) << 16;
        };
        const Bits even = at(2 * i), odd = at(2 * i + 1);
        sum += Floats(even) + Floats(odd);
        rows[i] = even >> 16 | odd;
      }
      slot<Wide>(bias_sums + c) = sum;
      transpose(rows);
#pragma GCC unroll 16
      for (Index i = 0; i < 16; ++i) {
        const Index at = (block * p.channels + c + i) * kTile;
        const Halves here = Halves(rows[i]), before = block > 0 ? load_halves(out + at - p.channels * kTile) : Halves{};
        store_halves(out + at, here);
        store_halves(out_shifted + at,
                     __builtin_shufflevector(before, here, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                             48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62));
      }
    }
  }
}

template <class Tiles>
void gradient(const GradientTask& task) {
  Sums<Tiles> tiles;
  const Layout& p = task.layout;
  const Index channels = p.channels, plane_size = p.plane_voxels() * channels, lines = plane_size / kTile;
  std::uint16_t* const transposed[2] = {task.scratch + 3 * p.paired_size(),
                                        task.scratch + 3 * p.paired_size() + p.transposed_size()};
  const auto paired = [&](Index plane) FLOODTIDE_LAMBDA { return task.scratch + plane % 3 * p.paired_size(); };
  for (Index c = 0; c < channels; ++c) task.bias_sums[c] = 0;
  for (Index z = 0; z < 2; ++z) {
    pair_plane(p, task.input + (task.plane_begin + z) * plane_size, paired(task.plane_begin + z));
  }
  for (Index z = task.plane_begin; z < task.plane_end; ++z) {
    pair_plane(p, task.input + (z + 2) * plane_size, paired(z + 2));
    transpose_plane(p, task.output_grad + (z + 1) * plane_size + p.first() * channels, transposed[0], transposed[1],
                    task.bias_sums);
    for (Index begin = 0; begin < p.gradient_blocks(); begin += kSegment) {
      const Index blocks = smaller(kSegment, p.gradient_blocks() - begin);
      const bool add = z > task.plane_begin || begin > 0;
      for (Index tap = 0; tap < kTaps; ++tap) {
        const Index voxel = p.first() + begin * kTile + (tap / 3 % 3 - 1) * p.row() + tap % 3 - 1;
        const Index line_begin = part_begin(lines, kTaps, tap), line_end = part_begin(lines, kTaps, tap + 1);
        for (Index line = line_begin; line < line_end && begin == 0; ++line) {  // of what the next plane reads
          __builtin_prefetch(task.input + (z + 3) * plane_size + line * kTile, 0, 2);
          __builtin_prefetch(task.output_grad + (z + 2) * plane_size + line * kTile, 0, 2);
        }
        const std::uint16_t* const b = paired(z + tap / 9) + voxel / 2 * channels * 2;
        const std::uint16_t* const a = transposed[voxel % 2] + begin * channels * kTile;
        for (Index out = 0; out < channels; out += kTile) {
          for (Index in = 0; in < channels; in += kTile) {
            float* const sums = task.sums + (tap * channels + out) * channels + in;
            add ? tiles.load(sums, channels) : tiles.clear();
            for (Index block = 0; block < blocks; ++block) {
              tiles.add_products(a + (block * channels + out) * kTile, kTileHalves, kTile,
                                 b + (block * kPanel * channels + in) * 2, kTile, channels * 2);
            }
            tiles.store(sums, channels);
          }
        }
      }
    }
  }
}

template <class Tiles>
constexpr Kernels kernels_of{&pack<Tiles>, &round<Tiles>, &convolve<Tiles>, &gradient<Tiles>};

}  // namespace
}  // namespace floodtide::kernels::bf16
