// SPDX-License-Identifier: Apache-2.0
// Loops of collectives over values: one table per instruction-set level. All levels give the same bits, except for the sign and
// payload of a NaN, because each element takes one addition, product, comparison or rounding.
#pragma once

#include <cstdint>

namespace floodtide::comm {

/// The first index is a ReduceType, the second a ReduceOp. `other_first` exchanges the operands. `inout` and `other` need only
/// the alignment of an element.
struct ReduceLoops {
  void (*reduce[7][4])(void* inout, const void* other, std::int64_t count, bool other_first);
  void (*reduce_bf16[4])(float* inout, const std::uint16_t* other, std::int64_t count, bool other_first);
  void (*encode_bf16)(const float* values, std::int64_t count, std::uint16_t* out_words);
  void (*encode_bf16_and_round)(float* inout_values, std::int64_t count, std::uint16_t* out_words);
  void (*decode_bf16)(const std::uint16_t* words, std::int64_t count, float* out_values);
};

extern const ReduceLoops kReduceGeneric;
#if defined(__x86_64__)
extern const ReduceLoops kReduceAvx2;
extern const ReduceLoops kReduceAvx512;
#endif

}  // namespace floodtide::comm
