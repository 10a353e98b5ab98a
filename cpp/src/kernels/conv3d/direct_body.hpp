// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/direct.hpp"
#include "kernels/conv3d/simd.hpp"

// Direct kernels, written with GCC's vector extensions. Each instruction-set file instantiates them.
//
// Forward keeps a block of voxels x vectors of sums in registers over all kernel elements and input channels. Each step loads
// the weights of the kernel elements along x, broadcasts one input value per position, and multiplies it for each voxel that
// uses it. The number of loads matters: on processors with two multiply-adds per cycle, one load for every two multiply-adds
// reduced the speed by a fifth of the peak. A row is split into blocks whose sizes differ by at most one, so that no block is
// too short to hide the latency of a multiply-add.
//
// Backward-weights keeps input channels x kernel_x x vectors of sums in registers, over a few rows that stay in L1.
//
// If the input needs a ReLU, both make a rectified copy of a few rows on the stack.
namespace floodtide::kernels::direct {
namespace {

constexpr Index kLine = 16;  // floats in a cache line

/// Sizes of the register blocks. A vector has `Lanes` floats. Forward uses Voxels x ForwardVectors sums. Backward-weights uses
/// Channels3 x 3 x Vectors sums for kernel_x = 3, and Channels1 x Vectors sums for kernel_x = 1. `Ring`: the registers can also
/// hold three gradients. `Multiple`: the number of output channels is a multiple of this.
template <int Multiple_, int Lanes_, int ForwardVectors_, int Voxels_, int Vectors_, int Channels3_, int Channels1_, bool Ring_>
struct Blocks {
  static constexpr int Multiple = Multiple_;
  static constexpr int Lanes = Lanes_;
  static constexpr int ForwardVectors = ForwardVectors_;
  static constexpr int Voxels = Voxels_;
  static constexpr int Vectors = Vectors_;
  static constexpr int Channels3 = Channels3_;
  static constexpr int Channels1 = Channels1_;
  static constexpr bool Ring = Ring_;
  using Vector = typename kernels::Lanes<Lanes_>::Vector;
};

/// Rectifies `count` floats (a multiple of 16).
template <class B>
FLOODTIDE_INLINE void rectify(const float* from, Index count, float* to) {
  for (Index i = 0; i < count; i += B::Lanes) slot<B>(to + i) = rectified<B>(load<B>(from + i));
}

/// Memory that the next row will read and write. Each register block prefetches a share of it, because hardware prefetchers do
/// not recognise rows that are read a few channels at a time. Without this, a volume that is not in the cache loses a twentieth
/// of the peak.
struct Ahead {
  const float* input;
  const float* out;
  Index step;  ///< floats of input and of out in one share

  FLOODTIDE_INLINE void fetch() {
    for (Index i = 0; i < step; i += kLine) {
      __builtin_prefetch(input + i);
      __builtin_prefetch(out + i);
    }
    input += step;
    out += step;
  }
};

/// Return the size of one share if `total` floats are split into `shares` shares, in whole cache lines.
FLOODTIDE_INLINE Index share_of(Index total, Index shares) { return (total / shares + kLine) / kLine * kLine; }

/// Computes one register block: `Voxels` voxels and `Vectors` vectors of output channels.
/// @param rows    kernel_z * kernel_y input rows, each at the leftmost neighbour of the first voxel of the row segment
/// @param offset  floats from there to the first voxel of the block
/// @param weights weights of this group of output channels
/// @param at      offset of the first output value in `out`, `mask` and `residual`
template <class B, int Voxels, int KernelX, int Vectors>
FLOODTIDE_BLOCK void forward_block(const ForwardTask& task, const float* const* rows, Index offset, const float* weights,
                                   Index channel, Index at, Ahead& ahead) {
  using Vector = typename B::Vector;
  constexpr int positions = Voxels + KernelX - 1;
  Vector sums[Voxels][Vectors];
#pragma GCC unroll 16
  for (int voxel = 0; voxel < Voxels; ++voxel) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) sums[voxel][vector] = load<B>(task.bias + channel + vector * B::Lanes);
  }
  const Index stride = task.in_strides.voxel;
  const Index row_count = task.kernel_z * task.kernel_y;
  for (Index row = 0; row < row_count; ++row) {
    ahead.fetch();
    const float* tap = rows[row] + offset;
    // One pointer for three positions, because an x86 address can be base, base + stride or base + 2 * stride.
    const float* base[(positions + 2) / 3];
#pragma GCC unroll 16
    for (int i = 0; i < (positions + 2) / 3; ++i) base[i] = tap + 3 * i * stride;
    for (Index channel_in = 0; channel_in < task.used_in; ++channel_in, weights += KernelX * Vectors * B::Lanes) {
      Vector weight[KernelX][Vectors];
#pragma GCC unroll 4
      for (int kx = 0; kx < KernelX; ++kx) {
#pragma GCC unroll 4
        for (int vector = 0; vector < Vectors; ++vector)
          weight[kx][vector] = load<B>(weights + (kx * Vectors + vector) * B::Lanes);
      }
#pragma GCC unroll 16
      for (int position = 0; position < positions; ++position) {
        const float value = base[position / 3][position % 3 * stride + channel_in];
#pragma GCC unroll 4
        for (int kx = 0; kx < KernelX; ++kx) {
          if (position < kx || position - kx >= Voxels) continue;
#pragma GCC unroll 4
          for (int vector = 0; vector < Vectors; ++vector) sums[position - kx][vector] += weight[kx][vector] * value;
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int voxel = 0; voxel < Voxels; ++voxel) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) {
      const Index position = at + voxel * task.out_strides.voxel + vector * B::Lanes;
      Vector value = sums[voxel][vector];
      if (task.mask != nullptr) value = load<B>(task.mask + position) > 0.0F ? value : Vector{};
      if (task.residual != nullptr) value += load<B>(task.residual + position);
      if (task.relu_output) value = rectified<B>(value);
      slot<B>(task.out + position) = value;
    }
  }
}

/// Calls the register block for `count` voxels, 1 <= count <= Voxels.
template <class B, int Voxels, int KernelX, int Vectors>
FLOODTIDE_INLINE void forward_voxels(Index count, const ForwardTask& task, const float* const* rows, Index offset,
                                     const float* weights, Index channel, Index at, Ahead& ahead) {
  if constexpr (Voxels > 1) {
    if (count < Voxels)
      return forward_voxels<B, Voxels - 1, KernelX, Vectors>(count, task, rows, offset, weights, channel, at, ahead);
  }
  forward_block<B, Voxels, KernelX, Vectors>(task, rows, offset, weights, channel, at, ahead);
}

/// Computes `count` voxels of one output row, with all output channels.
template <class B, int KernelX>
void forward_row(const ForwardTask& task, const float* const* rows, Index count, Index at, const float* next_input) {
  const Index blocks = (count + B::Voxels - 1) / B::Voxels;
  const Index groups = (task.out_channels + B::Lanes * B::ForwardVectors - 1) / (B::Lanes * B::ForwardVectors);
  const Index floats = larger((count + KernelX - 1) * task.in_strides.voxel, count * task.out_strides.voxel);
  Ahead ahead{next_input, task.out + at + task.out_strides.row,
              share_of(floats, blocks * groups * task.kernel_z * task.kernel_y)};
  const Index taps = task.kernel_z * task.kernel_y * task.kernel_x;
  const float* weights = task.weights;
  for (Index channel = 0; channel < task.out_channels;) {
    const Index group = smaller(B::Lanes * B::ForwardVectors, task.out_channels - channel);
    for (Index block = 0; block < blocks; ++block) {
      const Index begin = part_begin(count, blocks, block);
      const Index voxels = part_begin(count, blocks, block + 1) - begin;
      const Index offset = begin * task.in_strides.voxel;
      const Index to = at + begin * task.out_strides.voxel + channel;
      if (B::Lanes * B::ForwardVectors <= B::Multiple || group == B::Lanes * B::ForwardVectors) {
        forward_voxels<B, B::Voxels, KernelX, B::ForwardVectors>(voxels, task, rows, offset, weights, channel, to, ahead);
      } else {
        forward_voxels<B, B::Voxels, KernelX, 1>(voxels, task, rows, offset, weights, channel, to, ahead);
      }
    }
    weights += taps * task.used_in * group;
    channel += group;
  }
}

/// Return the offset, from voxel (0, 0, 0), of the input voxel that the first kernel element reads for output voxel (z, y, x).
template <class Task>
FLOODTIDE_INLINE Index first_neighbour(const Task& task, Index z, Index y, Index x) {
  return (z - task.kernel_z / 2) * task.in_strides.plane + (y - task.kernel_y / 2) * task.in_strides.row +
         (x - task.kernel_x / 2) * task.in_strides.voxel;
}

/// Sets the padding channels of `count` voxels to zero.
template <class B>
FLOODTIDE_INLINE void clear_padding(const ForwardTask& task, Index count, Index at) {
  for (Index voxel = 0; voxel < count; ++voxel) {
    float* channels = task.out + at + voxel * task.out_strides.voxel + task.out_channels;
    for (Index i = 0; i < task.padding; i += B::Lanes) slot<B>(channels + i) = typename B::Vector{};
  }
}

template <class B>
void forward(const ForwardTask& task) {
  alignas(64) float copy[kCopyFloats];
  const float* rows[9];
  const Index channels = task.in_strides.voxel;
  const Index row_stride = task.in_strides.row;
  const Index plane_stride = task.in_strides.plane;
  const Index fitting = kCopyFloats / (task.kernel_z * task.kernel_y * channels) - (task.kernel_x - 1);
  const Index segments = task.relu_input ? (task.x + fitting - 1) / fitting : 1;
  for (Index segment = 0; segment < segments; ++segment) {
    const Index x = part_begin(task.x, segments, segment);
    const Index count = part_begin(task.x, segments, segment + 1) - x;
    const Index copy_stride = (count + task.kernel_x - 1) * channels;
    for (Index row = task.row_begin; row < task.row_end; ++row) {
      const Index z = row / task.y;
      const Index y = row % task.y;
      const float* source = task.input + first_neighbour(task, z, y, x);
      // The copies form a ring over y. When y increases by one, only the newest row of each plane is rectified.
      const Index known = row == task.row_begin || y == 0 ? 0 : task.kernel_y - 1;
      for (Index kz = 0; kz < task.kernel_z; ++kz) {
        for (Index ky = 0; ky < task.kernel_y; ++ky) {
          const float* from = source + kz * plane_stride + ky * row_stride;
          float* to = copy + (kz * task.kernel_y + (y + ky) % task.kernel_y) * copy_stride;
          if (task.relu_input && ky >= known) rectify<B>(from, copy_stride, to);
          rows[kz * task.kernel_y + ky] = task.relu_input ? to : from;
        }
      }
      const Index at = z * task.out_strides.plane + y * task.out_strides.row + x * task.out_strides.voxel;
      const float* next_input = source + (task.kernel_z - 1) * plane_stride + task.kernel_y * row_stride;
      if (task.kernel_x == 3) {
        forward_row<B, 3>(task, rows, count, at, next_input);
      } else {
        forward_row<B, 1>(task, rows, count, at, next_input);
      }
      clear_padding<B>(task, count, at);
    }
  }
}

/// Part of some rows of one plane over which a register block of the weight gradient sums.
struct RowPatch {
  const float* input;  ///< leftmost neighbour of the first voxel, for the current kernel row
  Index input_stride;  ///< floats from row to row
  const float* grad;   ///< gradient at the first voxel
  Index grad_stride;   ///< floats from row to row
  Index rows, count;   ///< numbers of rows, and of voxels in each row
};

/// Adds the products of one position of a row: its input channels times the gradients of the voxels that use this position.
/// `grads` is a ring of the last KernelX gradients.
/// @tparam Phase place in the ring for the gradient of the voxel at this position
/// @tparam First, Last range of kernel elements; smaller than the kernel at the ends of the row
template <class B, int Channels, int KernelX, int Vectors, int Phase, int First, int Last>
FLOODTIDE_INLINE void weights_position(const float* input, const float* grad, typename B::Vector (&grads)[KernelX][Vectors],
                                       typename B::Vector (&sums)[KernelX][Channels][Vectors]) {
  if constexpr (First == 0) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) grads[Phase][vector] = load<B>(grad + vector * B::Lanes);
  }
#pragma GCC unroll 8
  for (int channel = 0; channel < Channels; ++channel) {
    const float value = input[channel];
#pragma GCC unroll 4
    for (int kx = First; kx <= Last; ++kx) {
#pragma GCC unroll 4
      for (int vector = 0; vector < Vectors; ++vector) {
        sums[kx][channel][vector] += grads[(Phase + KernelX - kx) % KernelX][vector] * value;
      }
    }
  }
}

/// Adds the products of one row. Each input value is loaded once for each kernel element.
template <class B, int Channels, int KernelX, int Vectors>
FLOODTIDE_INLINE void weights_row(const float* input, Index in_step, const float* grad, Index grad_step, Index count,
                                  typename B::Vector (&sums)[KernelX][Channels][Vectors]) {
  for (Index x = 0; x < count; ++x, input += in_step, grad += grad_step) {
    typename B::Vector gradient[Vectors];
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) gradient[vector] = load<B>(grad + vector * B::Lanes);
#pragma GCC unroll 4
    for (int kx = 0; kx < KernelX; ++kx) {
#pragma GCC unroll 8
      for (int channel = 0; channel < Channels; ++channel) {
        const float value = input[kx * in_step + channel];
#pragma GCC unroll 4
        for (int vector = 0; vector < Vectors; ++vector) sums[kx][channel][vector] += gradient[vector] * value;
      }
    }
  }
}

/// Adds the products of one row of at least two voxels. Each input value is loaded once for its three products.
template <class B, int Channels, int Vectors>
FLOODTIDE_INLINE void weights_row_by_ring(const float* input, Index in_step, const float* grad, Index grad_step, Index count,
                                          typename B::Vector (&sums)[3][Channels][Vectors]) {
  typename B::Vector grads[3][Vectors];
  weights_position<B, Channels, 3, Vectors, 0, 0, 0>(input, grad, grads, sums);
  weights_position<B, Channels, 3, Vectors, 1, 0, 1>(input + in_step, grad + grad_step, grads, sums);
  input += 2 * in_step;
  grad += 2 * grad_step;
  Index left = count - 2;
  for (; left >= 3; left -= 3, input += 3 * in_step, grad += 3 * grad_step) {
    weights_position<B, Channels, 3, Vectors, 2, 0, 2>(input, grad, grads, sums);
    weights_position<B, Channels, 3, Vectors, 0, 0, 2>(input + in_step, grad + grad_step, grads, sums);
    weights_position<B, Channels, 3, Vectors, 1, 0, 2>(input + 2 * in_step, grad + 2 * grad_step, grads, sums);
  }
  if (left == 0) {
    weights_position<B, Channels, 3, Vectors, 2, 1, 2>(input, nullptr, grads, sums);
    weights_position<B, Channels, 3, Vectors, 0, 2, 2>(input + in_step, nullptr, grads, sums);
  } else if (left == 1) {
    weights_position<B, Channels, 3, Vectors, 2, 0, 2>(input, grad, grads, sums);
    weights_position<B, Channels, 3, Vectors, 0, 1, 2>(input + in_step, nullptr, grads, sums);
    weights_position<B, Channels, 3, Vectors, 1, 2, 2>(input + 2 * in_step, nullptr, grads, sums);
  } else {
    weights_position<B, Channels, 3, Vectors, 2, 0, 2>(input, grad, grads, sums);
    weights_position<B, Channels, 3, Vectors, 0, 0, 2>(input + in_step, grad + grad_step, grads, sums);
    weights_position<B, Channels, 3, Vectors, 1, 1, 2>(input + 2 * in_step, nullptr, grads, sums);
    weights_position<B, Channels, 3, Vectors, 2, 2, 2>(input + 3 * in_step, nullptr, grads, sums);
  }
}

/// Adds the contribution of the patch to the weight gradient, for Channels input channels x KernelX x Vectors output vectors.
/// @param real number of channels to write; further channels up to Channels are padding
template <class B, int Channels, int KernelX, int Vectors>
FLOODTIDE_BLOCK void weights_block(const WeightsTask& task, const RowPatch& patch, Ahead& ahead, Index real, float* out) {
  using Vector = typename B::Vector;
  Vector sums[KernelX][Channels][Vectors];
#pragma GCC unroll 4
  for (int kx = 0; kx < KernelX; ++kx) {
#pragma GCC unroll 8
    for (int channel = 0; channel < Channels; ++channel) {
#pragma GCC unroll 4
      for (int vector = 0; vector < Vectors; ++vector) sums[kx][channel][vector] = Vector{};
    }
  }
  ahead.fetch();
  for (Index row = 0; row < patch.rows; ++row) {
    const float* input = patch.input + row * patch.input_stride;
    const float* grad = patch.grad + row * patch.grad_stride;
    if constexpr (B::Ring && KernelX == 3) {
      weights_row_by_ring<B>(input, task.in_strides.voxel, grad, task.out_strides.voxel, patch.count, sums);
    } else {
      weights_row<B>(input, task.in_strides.voxel, grad, task.out_strides.voxel, patch.count, sums);
    }
  }
#pragma GCC unroll 4
  for (int kx = 0; kx < KernelX; ++kx) {
#pragma GCC unroll 8
    for (int channel = 0; channel < Channels; ++channel) {
      if (channel >= real) break;
#pragma GCC unroll 4
      for (int vector = 0; vector < Vectors; ++vector) {
        slot<B>(out + (kx * task.used_in + channel) * task.out_channels + vector * B::Lanes) += sums[kx][channel][vector];
      }
    }
  }
}

/// Adds the contribution of all input channels of one kernel row (kz, ky), for one group of output channels.
template <class B, int Channels, int KernelX, int Vectors>
void weights_channels(const WeightsTask& task, RowPatch patch, Ahead& ahead, float* out) {
  for (Index channel = 0; channel < task.used_in;) {
    const Index left = task.used_in - channel;
    // The last blocks are smaller, so that no block reads beyond the stored channels of the last voxel.
    if (Channels > 2 && left == 2) {
      weights_block<B, 2, KernelX, Vectors>(task, patch, ahead, left, out);
      break;
    }
    if (left == 1) {
      weights_block<B, 1, KernelX, Vectors>(task, patch, ahead, left, out);
      break;
    }
    weights_block<B, Channels, KernelX, Vectors>(task, patch, ahead, left, out);
    channel += Channels;
    patch.input += Channels;
    out += Channels * task.out_channels;
  }
}

template <class B, int Vectors>
FLOODTIDE_INLINE void weights_kernel_row(const WeightsTask& task, const RowPatch& patch, Ahead& ahead, float* out) {
  if (task.kernel_x == 3 && patch.count >= 2) {
    weights_channels<B, B::Channels3, 3, Vectors>(task, patch, ahead, out);
    return;
  }
  RowPatch shifted = patch;  // for kernel_x = 1 and rows of one voxel: each kernel element separately
  for (Index kx = 0; kx < task.kernel_x; ++kx, shifted.input += task.in_strides.voxel) {
    weights_channels<B, B::Channels1, 1, Vectors>(task, shifted, ahead, out + kx * task.used_in * task.out_channels);
  }
}

/// Adds the sum of the output gradients of the patch.
template <class B>
void add_bias_grad(const WeightsTask& task, const RowPatch& patch) {
  for (Index channel = 0; channel < task.out_channels; channel += B::Lanes) {
    typename B::Vector sum{};
    for (Index row = 0; row < patch.rows; ++row) {
      const float* grad = patch.grad + row * patch.grad_stride + channel;
      for (Index x = 0; x < patch.count; ++x) sum += load<B>(grad + x * task.out_strides.voxel);
    }
    slot<B>(task.bias_grad + channel) += sum;
  }
}

template <class B>
void weights(const WeightsTask& task) {
  constexpr Index cached = 7168;  // floats of input and gradient rows that fit into an L1 cache of 32 KiB
  alignas(64) float copy[kCopyFloats];
  const Index in = task.in_strides.voxel;
  const Index grad_voxel = task.out_strides.voxel;
  const Index out = task.out_channels;
  const Index fitting = larger(1, (cached - (task.kernel_x - 1) * in) / (in + grad_voxel));
  const Index segments = (task.x + fitting - 1) / fitting;
  const Index longest = (task.x + segments - 1) / segments;
  const Index most_rows = larger(1, cached / ((longest + task.kernel_x - 1) * in + longest * grad_voxel));
  const Index copied_rows =
      task.relu_input ? kCopyFloats / ((longest + task.kernel_x - 1) * in) - (task.kernel_y - 1) : most_rows;
  const Index row_stride = task.in_strides.row;
  const Index plane_stride = task.in_strides.plane;
  for (Index row = task.row_begin; row < task.row_end;) {
    const Index z = row / task.y;
    const Index y = row % task.y;
    const Index rows = smaller(smaller(most_rows, copied_rows), smaller(task.y - y, task.row_end - row));
    for (Index segment = 0; segment < segments; ++segment) {
      const Index x = part_begin(task.x, segments, segment);
      RowPatch patch{};
      patch.rows = rows;
      patch.count = part_begin(task.x, segments, segment + 1) - x;
      patch.grad = task.output_grad + z * task.out_strides.plane + y * task.out_strides.row + x * grad_voxel;
      patch.grad_stride = task.out_strides.row;
      const Index copy_stride = (patch.count + task.kernel_x - 1) * in;
      const Index blocks = task.kernel_z * task.kernel_y * ((task.used_in + B::Channels3 - 1) / B::Channels3) *
                           ((out + B::Lanes * B::Vectors - 1) / (B::Lanes * B::Vectors));
      Ahead ahead{task.input + first_neighbour(task, z, y, x) + (task.kernel_z - 1) * plane_stride +
                      (rows + task.kernel_y - 1) * row_stride,
                  patch.grad + rows * patch.grad_stride,
                  segments > 1 ? 0 : share_of(rows * larger(row_stride, patch.grad_stride), blocks)};
      add_bias_grad<B>(task, patch);
      for (Index kz = 0; kz < task.kernel_z; ++kz) {
        const float* source = task.input + first_neighbour(task, z, y, x) + kz * plane_stride;
        if (task.relu_input) {
          for (Index i = 0; i < rows + task.kernel_y - 1; ++i) {
            rectify<B>(source + i * row_stride, copy_stride, copy + i * copy_stride);
          }
        }
        patch.input_stride = task.relu_input ? copy_stride : row_stride;
        for (Index ky = 0; ky < task.kernel_y; ++ky) {
          patch.input = (task.relu_input ? copy : source) + ky * patch.input_stride;
          float* grads = task.weight_grad + (kz * task.kernel_y + ky) * task.kernel_x * task.used_in * out;
          RowPatch part = patch;
          for (Index channel = 0; channel < out;) {
            part.grad = patch.grad + channel;
            const Index group = smaller(B::Lanes * B::Vectors, out - channel);
            if (B::Lanes * B::Vectors <= B::Multiple || group == B::Lanes * B::Vectors) {
              weights_kernel_row<B, B::Vectors>(task, part, ahead, grads + channel);
            } else {
              weights_kernel_row<B, 1>(task, part, ahead, grads + channel);
            }
            channel += group;
          }
        }
      }
    }
    row += rows;
  }
}

template <class B>
inline constexpr DirectKernels kernels_of{B::Multiple, B::Lanes * B::ForwardVectors, &forward<B>, &weights<B>};

}  // namespace
}  // namespace floodtide::kernels::direct
