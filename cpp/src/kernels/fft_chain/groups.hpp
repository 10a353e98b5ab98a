// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fft_chain/gradients.hpp"
#include "kernels/fft_chain/products.hpp"

// What happens to a group of the spectrum: transforms along z, products with weights, and gradients by weights.
namespace floodtide::kernels::fft {
namespace {

/// Fetches a part of the next group into the second cache.
FLOODTIDE_INLINE void fetch(const float* from, Index floats) {
  for (Index i = 0; i < floats; i += 16) __builtin_prefetch(from + i, 0, 2);
}

template <class B, bool Real>
FLOODTIDE_INLINE void multiply_group(const ProductsTask& task, Index group) {
  const Layout layout = task.layout;
  const Index channels = layout.channels, squared = channels * channels;
  float* const spectrum = task.spectrum + group * layout.group_stride();
  float* const weights = task.scratch;
  float* const own_taps = weights + 4 * squared;
  const Columns columns{own_taps + layout.group_weight_floats(), layout.point_stride()};
  const bool transformed = task.weights == nullptr;
  if (!transformed) transform_group_weights<B>(layout, task.weights, group, own_taps);
  const float* const taps = transformed ? task.transformed + group * layout.group_weight_floats() : own_taps;
  const Index plane_stride = layout.plane_stride();
  forward_columns<B, Real, Inputs::windows>(layout, spectrum, columns);
  if (task.layer_input != nullptr) {
    const Columns x{columns.product(0, 0), layout.point_stride()};
    forward_columns<B, Real, Inputs::tiles>(layout, task.layer_input + group * layout.group_stride(), x);
    weight_products<B, Real>(layout, x, columns, weights, task.weight_products + group * layout.group_products());
  }
  // A group of real numbers has conjugate products at conjugate frequencies.
  const bool last = group + 1 == kGroups;  // the thread usually multiplies the next group, too
  const Index share = layout.group_stride() / 8;
  for (int k = 0; k <= 6; ++k) {
    if (!last) {
      fetch(spectrum + layout.group_stride() + k * share, share);
      if (task.layer_input != nullptr) fetch(task.layer_input + (group + 1) * layout.group_stride() + k * share, share);
      if (transformed && k < 6) fetch(taps + (6 + k) * squared, squared);
    }
    const bool pair = !Real && k != 0 && k != 6;
    weights_of_frequency<B>(taps, squared, k, weights, pair ? weights + 2 * squared : nullptr);
    multiply_point<B>(layout, columns, k, weights);
    if (pair) multiply_point<B>(layout, columns, 12 - k, weights + 2 * squared);
  }
  if (group == 0) {
    Index tile = 0;
    for (Index z = 0; z < layout.tiles_z; ++z) {
      const Index first = larger(kTile * z - 1, 0), end = smaller(kTile * (z + 1), layout.planes());
      for (Index at = 0; at < layout.plane_tiles(); ++at, ++tile) {
        multiply_constant<B>(spectrum + first * plane_stride + at * 2 * channels, end - first, plane_stride, channels, taps,
                             columns.product(0, 0) + tile * channels);
      }
    }
  }
  if (!last) fetch(spectrum + layout.group_stride() + 7 * share, layout.group_stride() - 7 * share);
  weights_of_infinity<B>(taps, squared, weights);
  multiply_point<B>(layout, columns, kInfinity, weights);
  if constexpr (Real) {
    for (int k = 1; k < 6; ++k) {
      for (Index i = 0; i < layout.tiles() * channels; i += B::Lanes) {
        slot<B>(columns.product(12 - k, 0) + i) = load<B>(columns.product(k, 0) + i);
        slot<B>(columns.product(12 - k, 1) + i) = -load<B>(columns.product(k, 1) + i);
      }
    }
  }
  Index tile = 0;
  for (Index z = 0; z < layout.tiles_z; ++z) {
    for (Index at = 0; at < layout.plane_tiles(); ++at, ++tile) {
      for (Index channel = 0; channel < channels; channel += B::Lanes) {
        inverse_column<B, Real>(columns, tile * channels + channel,
                                spectrum + kTile * z * plane_stride + at * 2 * channels + channel, plane_stride, channels);
      }
    }
  }
}

template <class B>
void multiply_groups(const ProductsTask& task) {
  for (Index group = task.group_begin; group < task.group_end; ++group) {
    if (group < kRealGroups) {
      multiply_group<B, true>(task, group);
    } else {
      multiply_group<B, false>(task, group);
    }
  }
}

}  // namespace
}  // namespace floodtide::kernels::fft
