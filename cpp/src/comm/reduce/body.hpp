// SPDX-License-Identifier: Apache-2.0
// Loops over values, compiled once for each instruction-set level and vectorised by the compiler. The header has an anonymous
// namespace, so that the linker never shares this code between levels.
#pragma once

#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "comm/reduce/loops.hpp"

namespace floodtide::comm {
namespace {  // NOLINT(cert-dcl59-cpp,google-build-namespaces)

// Conversions between IEEE binary16 and float32. They use F16C if the level has it, and otherwise integer arithmetic that the
// compiler vectorises. Both round to nearest, ties to even, and give the same bits, except for the payload of a NaN.

inline float from_half(std::uint16_t half) {
  const std::uint32_t magnitude = half & 0x7FFFU;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U;
  // The bias of the exponent increases by 112. A product with 2^112 does this exactly, also for subnormal numbers. Infinities
  // and NaN have the largest exponent in both formats.
  const float scaled = __builtin_bit_cast(float, magnitude << 13U) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x7C00U ? 0x7F800000U : 0U;
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, scaled) | special | sign);
}

inline std::uint16_t to_half(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  // Normal results: reduce the bias, and round off the lowest 13 bits. A carry may increase the exponent.
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13U) & 1U)) >> 13U;
  // Results below 2^-14 are multiples of 2^-24. The last bit of 1/2 has the value 2^-24, so that adding 1/2 rounds to it.
  const float shifted = __builtin_bit_cast(float, magnitude) + 0.5F;
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, shifted) - 0x3F000000U;
  std::uint32_t half = magnitude < 0x38800000U ? subnormal : normal;
  half = magnitude >= 0x477FF000U ? 0x7C00U : half;  // 65520 and more round to infinity
  half = magnitude > 0x7F800000U ? 0x7E00U : half;
  return static_cast<std::uint16_t>(half | (bits >> 16U & 0x8000U));
}

inline void decode_half(const std::uint16_t* __restrict halves, std::int64_t count, float* __restrict out_values) {
  std::int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out_values + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i))));
  }
#endif
  for (; i < count; ++i) out_values[i] = from_half(halves[i]);
}

inline void encode_half(const float* __restrict values, std::int64_t count, std::uint16_t* __restrict out_halves) {
  std::int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out_halves + i), halves);
  }
#endif
  for (; i < count; ++i) out_halves[i] = to_half(values[i]);
}

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
/// Return an integer as an unsigned number, for sums and products: unsigned arithmetic wraps around, and signed overflow would
/// be undefined. Return a floating-point number as it is.
template <class T>
auto wrapping(T value) {
  if constexpr (__is_same(T, float) || __is_same(T, double)) {
    return value;
  } else if constexpr (sizeof(T) == sizeof(std::uint64_t)) {
    return static_cast<std::uint64_t>(value);
  } else {
    return static_cast<std::uint32_t>(value);
  }
}
struct Sum {
  template <class T>
  static T combine(T first, T second) {
    return static_cast<T>(wrapping(first) + wrapping(second));
  }
};
struct Product {
  template <class T>
  static T combine(T first, T second) {
    return static_cast<T>(wrapping(first) * wrapping(second));
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
