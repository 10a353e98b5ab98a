// SPDX-License-Identifier: Apache-2.0
// Conversions between IEEE binary16 and float32, compiled once for each instruction-set level. They use F16C if the level has
// it, and otherwise integer arithmetic that the compiler vectorises. Both round to nearest, ties to even, and give the same
// bits, except for the payload of a NaN.
#pragma once

#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace floodtide::comm {
namespace {  // NOLINT(cert-dcl59-cpp,google-build-namespaces)

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

}  // namespace
}  // namespace floodtide::comm
