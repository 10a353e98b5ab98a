// SPDX-License-Identifier: Apache-2.0
// The loops themselves, compiled once for each level; the compiler makes vectors of them. Nothing here may be seen by the
// linker, hence the anonymous namespace in a header.
#pragma once

#include <cstdint>

#include "comm/reduce/loops.hpp"

namespace floodtide::comm {
namespace {  // NOLINT(cert-dcl59-cpp,google-build-namespaces)

// The comparisons keep a NaN of either side: x != x holds only for NaN, and a comparison with NaN is false.
struct Minimum {
  template <class T>
  static T combine(T first, T second) {
    return (first < second || first != first) ? first : second;
  }
};
struct Maximum {
  template <class T>
  static T combine(T first, T second) {
    return (first > second || first != first) ? first : second;
  }
};
struct Sum {
  template <class T>
  static T combine(T first, T second) {
    return first + second;
  }
  static std::int64_t combine(std::int64_t first, std::int64_t second) {  // unsigned: defined when it overflows
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(second));
  }
};

inline float from_bf16(std::uint16_t word) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(word) << 16U); }

/// As a float32 of which the lower half means nothing, so that the loops narrow once.
inline std::uint32_t rounded_bits(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  return value != value ? bits | 0x400000U : rounded;  // quiet: rounding could turn a NaN into an infinity
}

template <class Operation, class T>
void reduce(void* inout, const void* other, std::int64_t count, bool other_first) {
  auto* __restrict const mine = static_cast<T*>(inout);
  const auto* __restrict const theirs = static_cast<const T*>(other);
  if (other_first) {
    for (std::int64_t i = 0; i < count; ++i) mine[i] = Operation::combine(theirs[i], mine[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) mine[i] = Operation::combine(mine[i], theirs[i]);
  }
}

template <class Operation>
void reduce_bf16(float* __restrict inout, const std::uint16_t* __restrict other, std::int64_t count, bool other_first) {
  if (other_first) {
    for (std::int64_t i = 0; i < count; ++i) inout[i] = Operation::combine(from_bf16(other[i]), inout[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) inout[i] = Operation::combine(inout[i], from_bf16(other[i]));
  }
}

inline void encode(const float* __restrict values, std::int64_t count, std::uint16_t* __restrict out_words) {
  for (std::int64_t i = 0; i < count; ++i) out_words[i] = static_cast<std::uint16_t>(rounded_bits(values[i]) >> 16U);
}

inline void encode_and_round(float* __restrict inout_values, std::int64_t count, std::uint16_t* __restrict out_words) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = rounded_bits(inout_values[i]);
    out_words[i] = static_cast<std::uint16_t>(bits >> 16U);
    inout_values[i] = __builtin_bit_cast(float, bits & 0xFFFF0000U);
  }
}

inline void decode(const std::uint16_t* __restrict words, std::int64_t count, float* __restrict out_values) {
  for (std::int64_t i = 0; i < count; ++i) out_values[i] = from_bf16(words[i]);
}

constexpr ReduceLoops kLoops = {{{&reduce<Sum, float>, &reduce<Minimum, float>, &reduce<Maximum, float>},
                                 {&reduce<Sum, double>, &reduce<Minimum, double>, &reduce<Maximum, double>},
                                 {&reduce<Sum, std::int64_t>, &reduce<Minimum, std::int64_t>, &reduce<Maximum, std::int64_t>}},
                                {&reduce_bf16<Sum>, &reduce_bf16<Minimum>, &reduce_bf16<Maximum>},
                                &encode,
                                &encode_and_round,
                                &decode};

}  // namespace
}  // namespace floodtide::comm
