// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "bench/peak/loops.hpp"

// A chain of dependent multiply-adds waits for their latency: 4 cycles on current processors, which start 2 per cycle. 12
// chains hide this latency, and fit into 16 registers. Do not include std headers: see tests/scripts/check_isa_symbols.py.
namespace floodtide::bench {
namespace {

constexpr int kChains = 12;

template <int Lanes>
void peak_loop(std::int64_t rounds, float* out_sink) {
  typedef float Vector __attribute__((vector_size(sizeof(float) * Lanes), aligned(4), may_alias));
  const Vector factor = *reinterpret_cast<const Vector*>(out_sink);
  const Vector addend = *reinterpret_cast<const Vector*>(out_sink + Lanes);
  Vector sums[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sums[i] = addend * static_cast<float>(i);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * factor + addend;
  }
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) *reinterpret_cast<Vector*>(out_sink + i * Lanes) = sums[i];
}

template <int Lanes>
inline constexpr PeakLoop peak_of{2.0 * kChains * Lanes, &peak_loop<Lanes>, kChains * Lanes};

}  // namespace
}  // namespace floodtide::bench
