// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstdint>

// Vector helpers for the kernels of an instruction-set file: GCC vector extensions with B::Lanes floats per vector.
//
// This header uses no std functions and no external linkage. Otherwise the linker could choose code compiled for AVX-512 for
// other files too.
namespace floodtide::kernels {
namespace {

using Index = std::int64_t;

#define FLOODTIDE_INLINE inline __attribute__((always_inline))
// Register blocks are not inlined, because the caller would use some of the registers.
#define FLOODTIDE_BLOCK __attribute__((noinline))
#define FLOODTIDE_LAMBDA __attribute__((always_inline))

/// Vectors of `Count` numbers.
template <int Count>
struct Lanes {
  typedef float Vector __attribute__((vector_size(sizeof(float) * Count), may_alias));
  typedef float Unaligned __attribute__((vector_size(sizeof(float) * Count), may_alias, aligned(sizeof(float))));
  typedef double Wide __attribute__((vector_size(sizeof(double) * Count)));
};

template <class B>
FLOODTIDE_INLINE const typename B::Vector& load(const float* p) {
  return *reinterpret_cast<const typename B::Vector*>(p);
}
template <class B>
FLOODTIDE_INLINE typename B::Vector& slot(float* p) {
  return *reinterpret_cast<typename B::Vector*>(p);
}

/// Load for addresses without the alignment of a vector.
template <class B>
FLOODTIDE_INLINE typename B::Vector load_unaligned(const float* p) {
  return *reinterpret_cast<const typename Lanes<B::Lanes>::Unaligned*>(p);
}

/// `Count` doubles in two registers, because GCC 12 often keeps wider vectors in memory. Intrinsics load them, because GCC 12
/// also uses memory to convert half a vector of floats.
template <int Count>
struct Doubles {
  using Half = typename Lanes<Count / 2>::Wide;
  using Floats = typename Lanes<Count / 2>::Unaligned;
  Half low, high;

  static FLOODTIDE_INLINE Half load_half(const float* p) {
#if defined(__AVX512F__)
    if constexpr (Count == 16) return Half(_mm512_maskz_cvtps_pd(0xFF, _mm256_loadu_ps(p)));
#elif defined(__AVX2__)
    if constexpr (Count == 8) return Half(_mm256_cvtps_pd(_mm_loadu_ps(p)));
#endif
    return __builtin_convertvector(*reinterpret_cast<const Floats*>(p), Half);
  }
  static FLOODTIDE_INLINE Doubles load(const float* p) { return {load_half(p), load_half(p + Count / 2)}; }
  FLOODTIDE_INLINE void store(float* p) const {
    *reinterpret_cast<Floats*>(p) = __builtin_convertvector(low, Floats);
    *reinterpret_cast<Floats*>(p + Count / 2) = __builtin_convertvector(high, Floats);
  }
  FLOODTIDE_INLINE double operator[](int i) const { return i < Count / 2 ? low[i] : high[i - Count / 2]; }
  FLOODTIDE_INLINE Doubles operator+(const Doubles& other) const { return {low + other.low, high + other.high}; }
  FLOODTIDE_INLINE Doubles& operator+=(const Doubles& other) { return *this = *this + other; }
  FLOODTIDE_INLINE Doubles operator-(const Doubles& other) const { return {low - other.low, high - other.high}; }
  friend FLOODTIDE_INLINE Doubles operator*(double factor, const Doubles& v) { return {factor * v.low, factor * v.high}; }
};

FLOODTIDE_INLINE Index smaller(Index a, Index b) { return a < b ? a : b; }
FLOODTIDE_INLINE Index larger(Index a, Index b) { return a > b ? a : b; }

/// Return the begin of part `part` if `total` items are split into `parts` parts. Sizes differ by at most one.
FLOODTIDE_INLINE Index part_begin(Index total, Index parts, Index part) {
  return part * (total / parts) + smaller(part, total % parts);
}

/// Return max(value, 0). NaN stays NaN, as in the reference, because the maximum instruction returns its second operand if one
/// operand is NaN. GCC does not generate this instruction from the comparison below.
template <class B>
FLOODTIDE_INLINE typename B::Vector rectified(typename B::Vector value) {
#if defined(__AVX512F__)
  if constexpr (B::Lanes == 16) return typename B::Vector(_mm512_maskz_max_ps(0xFFFF, __m512{}, __m512(value)));
#elif defined(__AVX2__)
  if constexpr (B::Lanes == 8) return typename B::Vector(_mm256_max_ps(__m256{}, __m256(value)));
#endif
  return value < 0.0F ? typename B::Vector{} : value;
}

}  // namespace
}  // namespace floodtide::kernels
