// SPDX-License-Identifier: Apache-2.0
// The loops that collectives run over values, as a table a level of instruction sets. All levels give the same bits: an element
// is one addition, comparison or rounding.
#pragma once

#include <cstdint>

namespace floodtide::comm {

/// Elements of the first index: float32, float64, int64; of the second: sum, min, max. `other_first` exchanges the operands.
struct ReduceLoops {
  void (*reduce[3][3])(void* inout, const void* other, std::int64_t count, bool other_first);
  void (*reduce_bf16[3])(float* inout, const std::uint16_t* other, std::int64_t count, bool other_first);
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
