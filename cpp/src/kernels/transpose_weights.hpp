// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "floodtide/base/parallel.hpp"

namespace floodtide::kernels {

/// Computes the weights [tap][out][in] of the transposed convolution from `weights` [tap][in][out]: taps are in reverse order.
inline void transpose_weights(const float* weights, std::int64_t taps, std::int64_t in, std::int64_t out,
                              float* out_transposed) {
  constexpr std::int64_t line = 16;  // floats of a cache line, which are read together
  parallel_for(taps, [&](std::int64_t tap) {
    const float* const from = weights + (taps - 1 - tap) * in * out;
    float* const to = out_transposed + tap * in * out;
    for (std::int64_t begin = 0; begin < out; begin += line) {
      const std::int64_t end = std::min(begin + line, out);
      for (std::int64_t i = 0; i < in; ++i) {
        for (std::int64_t o = begin; o < end; ++o) to[o * in + i] = from[i * out + o];
      }
    }
  });
}

}  // namespace floodtide::kernels
