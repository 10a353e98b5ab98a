// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fft_chain/gradients.hpp"
#include "kernels/fft_chain/groups.hpp"
#include "kernels/fft_chain/planes.hpp"
#include "kernels/fft_chain/weights.hpp"

namespace floodtide::kernels::fft {
namespace {

/// Sizes for an instruction set.
/// @tparam kLanes   floats of a vector
/// @tparam kTiles   tiles of a register block of products
/// @tparam kOutputs output channels of a register block, and of a block of weights
template <int kLanes, int kTiles, int kOutputs>
struct Blocks {
  static constexpr int Lanes = kLanes, Tiles = kTiles, Outputs = kOutputs;
  using Vector = typename kernels::Lanes<kLanes>::Vector;
};

template <class B>
constexpr Kernels kernels_of{&transform_weights<B>, &forward_plane<B>,    &multiply_groups<B>,
                             &inverse_plane<B>,     &weight_gradients<B>, &sum_plane<B>};

}  // namespace
}  // namespace floodtide::kernels::fft
