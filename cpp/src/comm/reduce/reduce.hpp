// SPDX-License-Identifier: Apache-2.0
// What collectives do to values: reductions, and the bf16 wire format.
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// inout[i] = op(inout[i], other[i]), with the operands exchanged for other_first. `other` holds as many elements as `inout`;
/// they do not overlap. Sums and products of whole numbers wrap around, modulo 2 to the number of their bits; each of float16
/// is made in float32 and rounded to the nearest float16, ties to even.
void reduce_into(const ReduceBuffer& inout, const std::byte* other, ReduceOp op, bool other_first);

/// Makes every element the value that changes no result of the operation: what a rank that has joined takes part with.
void fill_neutral(const ReduceBuffer& out, ReduceOp op);

/// bfloat16: the upper half of a float32, rounded to nearest, ties to even. Infinities and NaN stay what they are.
void encode_bf16(std::span<const float> values, std::uint16_t* out_words);
/// The same, and the values become what the receiver will read.
void encode_bf16_and_round(std::span<float> inout_values, std::uint16_t* out_words);
void decode_bf16(const std::uint16_t* words, std::span<float> out_values);
/// reduce_into of decoded words, in float32.
void reduce_bf16_into(std::span<float> inout, const std::uint16_t* words, ReduceOp op, bool words_first);

}  // namespace floodtide::comm
