// SPDX-License-Identifier: Apache-2.0
// Operations of collectives on values: reductions, and conversions to the bf16 wire format.
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// Compute inout[i] = op(inout[i], other[i]), or op(other[i], inout[i]) if `other_first`.
///
/// `other` has as many elements as `inout`, and must not overlap it. Sums and products of integers wrap around. Those of
/// float16 are computed in float32 and rounded to the nearest float16, ties to even.
void reduce_into(const ReduceBuffer& inout, const std::byte* other, ReduceOp op, bool other_first);

/// Set every element to the neutral value of the operation, which does not change its result. Ranks that have joined use it.
void fill_neutral(const ReduceBuffer& out, ReduceOp op);

/// Convert float32 to bfloat16, the upper half of a float32, rounded to nearest, ties to even. Infinities and NaN stay
/// infinities and NaN.
void encode_bf16(std::span<const float> values, std::uint16_t* out_words);
/// Convert as encode_bf16, and round the values themselves to bfloat16.
void encode_bf16_and_round(std::span<float> inout_values, std::uint16_t* out_words);
void decode_bf16(const std::uint16_t* words, std::span<float> out_values);
/// Decode the words, and combine them with `inout` as reduce_into does, in float32.
void reduce_bf16_into(std::span<float> inout, const std::uint16_t* words, ReduceOp op, bool words_first);

}  // namespace floodtide::comm
