// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce/reduce.hpp"

#include "comm/reduce/loops.hpp"
#include "floodtide/base/isa.hpp"

namespace floodtide::comm {
namespace {

/// FLOODTIDE_ISA caps the level, as it does for kernels.
const ReduceLoops& loops() {
#if defined(__x86_64__)
  switch (active_isa()) {
    case Isa::avx512: return kReduceAvx512;
    case Isa::avx2: return kReduceAvx2;
    case Isa::generic:
    case Isa::reference: break;
  }
#endif
  return kReduceGeneric;
}

std::int64_t count_of(std::span<const float> values) { return static_cast<std::int64_t>(values.size()); }

}  // namespace

void reduce_into(const ReduceBuffer& inout, const std::byte* other, ReduceOp op, bool other_first) {
  loops().reduce[static_cast<int>(inout.type)][static_cast<int>(op)](inout.data, other, inout.count, other_first);
}

void encode_bf16(std::span<const float> values, std::uint16_t* out_words) {
  loops().encode_bf16(values.data(), count_of(values), out_words);
}

void encode_bf16_and_round(std::span<float> inout_values, std::uint16_t* out_words) {
  loops().encode_bf16_and_round(inout_values.data(), count_of(inout_values), out_words);
}

void decode_bf16(const std::uint16_t* words, std::span<float> out_values) {
  loops().decode_bf16(words, count_of(out_values), out_values.data());
}

void reduce_bf16_into(std::span<float> inout, const std::uint16_t* words, ReduceOp op, bool words_first) {
  loops().reduce_bf16[static_cast<int>(op)](inout.data(), words, count_of(inout), words_first);
}

}  // namespace floodtide::comm
