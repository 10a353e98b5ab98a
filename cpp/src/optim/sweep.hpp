// SPDX-License-Identifier: Apache-2.0
// Sweeps over the flat buffers of parameters, gradients and state, with the widest vectors of the processor.
//
// Files that include this header are compiled without contraction into fused multiply-adds (CMakeLists.txt). Results then do
// not depend on the instruction set, and ranks on different processors keep equal parameters.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/pieces.hpp"

/// Marks the body of a sweep: it must be compiled into the function for the instruction set.
#define FLOODTIDE_SWEEP __attribute__((always_inline))

namespace floodtide::optim {

template <class Body>
void run_generic(const Body& body, std::int64_t begin, std::int64_t end) {
  body(begin, end);
}

#if defined(__x86_64__)
template <class Body>
__attribute__((target("avx2"))) void run_avx2(const Body& body, std::int64_t begin, std::int64_t end) {
  body(begin, end);
}
template <class Body>
__attribute__((target("avx512f"))) void run_avx512(const Body& body, std::int64_t begin, std::int64_t end) {
  body(begin, end);
}
#endif

/// Call body(begin, end), compiled for the instruction set in use.
template <class Body>
void run_wide(const Body& body, std::int64_t begin, std::int64_t end) {
#if defined(__x86_64__)
  const Isa level = active_isa();
  if (level == Isa::avx512) return run_avx512(body, begin, end);
  if (level == Isa::avx2) return run_avx2(body, begin, end);
#endif
  run_generic(body, begin, end);
}

/// Call body(begin, end) for pieces of [0, size) as for_pieces() does, compiled for the instruction set in use.
template <class Body>
void sweep(std::int64_t size, const Body& body) {
  for_pieces(size, [&body](std::int64_t begin, std::int64_t end) { run_wide(body, begin, end); });
}

/// Return the sum of value(i)^2 in double precision, in an order that does not depend on the instruction set.
template <class Value>
FLOODTIDE_SWEEP inline double square_sum_of(std::int64_t begin, std::int64_t end, const Value& value) {
  constexpr std::int64_t kBlock = 512, kLanes = 16;
  std::array<float, kBlock> values{};  // compilers do not vectorise the computation and the sum together
  std::array<double, kLanes> lanes{};
  for (std::int64_t first = begin; first < end; first += kBlock) {
    const std::int64_t count = std::min(kBlock, end - first);
    for (std::int64_t i = 0; i < count; ++i) values[i] = value(first + i);
    for (std::int64_t i = count; i < kBlock; ++i) values[i] = 0;
    for (std::int64_t i = 0; i < kBlock; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += double{values[i + lane]} * double{values[i + lane]};
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace floodtide::optim
