// SPDX-License-Identifier: Apache-2.0
// Loops over values, compiled once for each instruction-set level and vectorised by the compiler. The header has an anonymous
// namespace, so that the linker never shares this code between levels.
#pragma once

#include <cstdint>

#include "comm/reduce/half.hpp"
#include "comm/reduce/loops.hpp"

namespace floodtide::comm {
namespace {  // NOLINT(cert-dcl59-cpp,google-build-namespaces)

// If one operand is NaN, the result is NaN: x != x is true only for NaN, and a comparison with NaN is false.
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
/// Unsigned type for sums and products of integers. Unsigned arithmetic wraps around; signed overflow would be undefined.
/// `void` for floating-point types.
template <class T>
struct Wrapping {
  using type = void;
};
template <>
struct Wrapping<std::int64_t> {
  using type = std::uint64_t;
};
template <>
struct Wrapping<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Wrapping<std::uint8_t> {
  using type = std::uint32_t;
};
template <>
struct Wrapping<std::int8_t> {
  using type = std::uint32_t;
};

struct Sum {
  template <class T>
  static T combine(T first, T second) {
    using Unsigned = typename Wrapping<T>::type;
    if constexpr (__is_same(Unsigned, void)) {
      return first + second;
    } else {
      return static_cast<T>(static_cast<Unsigned>(first) + static_cast<Unsigned>(second));
    }
  }
};
struct Product {
  template <class T>
  static T combine(T first, T second) {
    using Unsigned = typename Wrapping<T>::type;
    if constexpr (__is_same(Unsigned, void)) {
      return first * second;
    } else {
      return static_cast<T>(static_cast<Unsigned>(first) * static_cast<Unsigned>(second));
    }
  }
};

inline float from_bf16(std::uint16_t word) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(word) << 16U); }

/// Return the bits of a value rounded to bfloat16, in the upper half of a float32. The lower half has no meaning.
inline std::uint32_t rounded_bits(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  return value != value ? bits | 0x400000U : rounded;  // make a NaN quiet: rounding could turn a NaN into an infinity
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

/// Reduces float16 values: converts them to float32 and back, in blocks that stay in the L1 cache.
template <class Operation>
void reduce_half(void* inout, const void* other, std::int64_t count, bool other_first) {
  constexpr std::int64_t kBlock = 256;
  float mine[kBlock];
  float theirs[kBlock];
  auto* const halves = static_cast<std::uint16_t*>(inout);
  const auto* const others = static_cast<const std::uint16_t*>(other);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = count - begin < kBlock ? count - begin : kBlock;
    decode_half(halves + begin, length, mine);
    decode_half(others + begin, length, theirs);
    reduce<Operation, float>(mine, theirs, length, other_first);
    encode_half(mine, length, halves + begin);
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

template <class T>
constexpr void fill(void (*(&row)[4])(void*, const void*, std::int64_t, bool)) {
  row[0] = &reduce<Sum, T>;
  row[1] = &reduce<Minimum, T>;
  row[2] = &reduce<Maximum, T>;
  row[3] = &reduce<Product, T>;
}

constexpr ReduceLoops make_loops() {
  ReduceLoops loops = {{},
                       {&reduce_bf16<Sum>, &reduce_bf16<Minimum>, &reduce_bf16<Maximum>, &reduce_bf16<Product>},
                       &encode,
                       &encode_and_round,
                       &decode};
  fill<float>(loops.reduce[0]);
  fill<double>(loops.reduce[1]);
  fill<std::int64_t>(loops.reduce[2]);
  fill<std::int32_t>(loops.reduce[3]);
  fill<std::uint8_t>(loops.reduce[4]);
  fill<std::int8_t>(loops.reduce[5]);
  loops.reduce[6][0] = &reduce_half<Sum>;
  loops.reduce[6][1] = &reduce_half<Minimum>;
  loops.reduce[6][2] = &reduce_half<Maximum>;
  loops.reduce[6][3] = &reduce_half<Product>;
  return loops;
}

constexpr ReduceLoops kLoops = make_loops();

}  // namespace
}  // namespace floodtide::comm
