// SPDX-License-Identifier: Apache-2.0
#include "kernels/fft_chain/planes.hpp"
#include "kernels/fft_chain/products.hpp"
#include "kernels/fft_chain/weights.hpp"

#if !defined(__AVX512F__) && !defined(FLOODTIDE_EMULATED)
#error "compile this file for its instruction set"
#endif

namespace floodtide::kernels::fft {
namespace {

/// A vector has `Lanes` floats.
struct Blocks {
  static constexpr int Lanes = 16;
  using Vector = typename kernels::Lanes<16>::Vector;
};

}  // namespace

const Kernels kAvx512{&transform_weights<Blocks>, &forward_plane<Blocks>, &multiply_groups<Blocks>, &inverse_plane<Blocks>};

}  // namespace floodtide::kernels::fft
