// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c/fold.hpp"

#include <immintrin.h>

namespace floodtide {
namespace {

/// Return x^n mod P as a factor of a carry-less product. The lowest bit of a register is its highest power of x, so that the
/// product of two 64-bit registers contains one factor x too many. The function therefore computes x^(n - 1) mod P.
constexpr std::uint64_t power(int n) {
  std::uint32_t remainder = 0x80000000U;  // x^0
  for (int i = 0; i < n - 1; ++i) remainder = (remainder >> 1) ^ ((remainder & 1U) != 0 ? 0x82F63B78U : 0U);
  return std::uint64_t{remainder} << 32;
}

/// Factors that move 128 bits forward by n bits. The first 64 bits are 64 bits farther away than the last 64 bits, so that the
/// two halves have different factors.
struct Factors {
  std::uint64_t first, last;
};
constexpr Factors factors(int n) { return {power(n + 64), power(n)}; }

__m512i wide(Factors f) {
  const auto first = static_cast<long long>(f.first), last = static_cast<long long>(f.last);
  return _mm512_set_epi64(last, first, last, first, last, first, last, first);
}
__m512i fold(__m512i from, __m512i factor, __m512i onto) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(from, factor, 0x00), _mm512_clmulepi64_epi128(from, factor, 0x11),
                                   onto, 0x96);
}
__m128i fold(__m128i from, Factors f, __m128i onto) {
  const __m128i factor = _mm_set_epi64x(static_cast<long long>(f.last), static_cast<long long>(f.first));
  const __m128i moved = _mm_xor_si128(_mm_clmulepi64_si128(from, factor, 0x00), _mm_clmulepi64_si128(from, factor, 0x11));
  return _mm_xor_si128(moved, onto);
}

std::uint32_t fold_all(std::uint32_t crc, const char* at, std::size_t bytes) {
  static constexpr Factors kRound = factors(2048), kWide = factors(512), kLane3 = factors(384), kLane2 = factors(256),
                           kLane1 = factors(128);
  const auto load = [](const char* from) { return _mm512_loadu_si512(from); };
  __m512i a = _mm512_xor_si512(load(at), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  __m512i b = load(at + 64), c = load(at + 128), d = load(at + 192);
  const __m512i round = wide(kRound);
  for (const char* end = at + bytes; (at += kFoldBytes) != end;) {
    a = fold(a, round, load(at));
    b = fold(b, round, load(at + 64));
    c = fold(c, round, load(at + 128));
    d = fold(d, round, load(at + 192));
  }
  const __m512i next = wide(kWide);
  d = fold(fold(fold(a, next, b), next, c), next, d);
  alignas(64) __m128i lanes[4];
  _mm512_store_si512(lanes, d);
  const __m128i rest = fold(lanes[0], kLane3, fold(lanes[1], kLane2, fold(lanes[2], kLane1, lanes[3])));
  const std::uint64_t first = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(rest)));
  return static_cast<std::uint32_t>(_mm_crc32_u64(first, static_cast<std::uint64_t>(_mm_extract_epi64(rest, 1))));
}

}  // namespace

const FoldCrc32c kFoldCrc32cAvx512 = &fold_all;

}  // namespace floodtide
