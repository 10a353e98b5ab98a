// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "comm/reduce/loops.hpp"
#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"

namespace floodtide::comm {
namespace {

/// Return the loops for active_isa().
const ReduceLoops& loops() {
  static_assert(std::extent_v<decltype(ReduceLoops::reduce), 0> == kReduceTypes);
  static_assert(std::extent_v<decltype(ReduceLoops::reduce), 1> == kReduceOps);
#if defined(__x86_64__)
  if (active_isa() == Isa::avx512) return kReduceAvx512;
  if (active_isa() == Isa::avx2) return kReduceAvx2;
#endif
  return kReduceGeneric;
}

/// Calls loop(first, count) twice: for the elements before the first cache-line border in `values`, and for the rest. In the
/// rest, no vector access to `values` crosses a cache line. This is needed because arrays and segments may begin anywhere.
template <class Loop>
void by_lines(const void* values, std::size_t element, std::int64_t count, const Loop& loop) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(values) % kAlignment;
  const std::int64_t before = past == 0 ? 0 : std::min(count, static_cast<std::int64_t>((kAlignment - past) / element));
  loop(0, before);
  loop(before, count - before);
}

template <class Loop>
void by_lines(std::span<const float> values, const Loop& loop) {
  by_lines(values.data(), sizeof(float), static_cast<std::int64_t>(values.size()), loop);
}

template <class T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  if (op == ReduceOp::sum) return T{0};
  if (op == ReduceOp::product) return T{1};
  if constexpr (Limits::has_infinity) return op == ReduceOp::min ? Limits::infinity() : -Limits::infinity();
  return op == ReduceOp::min ? Limits::max() : Limits::lowest();
}

std::uint16_t neutral_half(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return 0x0000U;
    case ReduceOp::product: return 0x3C00U;
    case ReduceOp::min: return 0x7C00U;  // infinity
    case ReduceOp::max: return 0xFC00U;
  }
  return 0;
}

template <class T>
void fill(const ReduceBuffer& out, T value) {
  for (std::int64_t i = 0; i < out.count; ++i)
    std::memcpy(out.data + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
}

}  // namespace

void fill_neutral(const ReduceBuffer& out, ReduceOp op) {
  switch (out.type) {
    case ReduceType::float32: return fill(out, neutral<float>(op));
    case ReduceType::float64: return fill(out, neutral<double>(op));
    case ReduceType::int64: return fill(out, neutral<std::int64_t>(op));
    case ReduceType::int32: return fill(out, neutral<std::int32_t>(op));
    case ReduceType::uint8: return fill(out, neutral<std::uint8_t>(op));
    case ReduceType::int8: return fill(out, neutral<std::int8_t>(op));
    case ReduceType::float16: return fill(out, neutral_half(op));
  }
}

void reduce_into(const ReduceBuffer& inout, const std::byte* other, ReduceOp op, bool other_first) {
  const auto reduce = loops().reduce[static_cast<int>(inout.type)][static_cast<int>(op)];
  const std::size_t element = element_bytes(inout.type);
  by_lines(inout.data, element, inout.count, [&](std::int64_t begin, std::int64_t count) {
    const std::size_t offset = static_cast<std::size_t>(begin) * element;
    reduce(inout.data + offset, other + offset, count, other_first);
  });
}

void encode_bf16(std::span<const float> values, std::uint16_t* out_words) {
  by_lines(values, [&](std::int64_t begin, std::int64_t count) {
    loops().encode_bf16(values.data() + begin, count, out_words + begin);
  });
}

void encode_bf16_and_round(std::span<float> inout_values, std::uint16_t* out_words) {
  by_lines(inout_values, [&](std::int64_t begin, std::int64_t count) {
    loops().encode_bf16_and_round(inout_values.data() + begin, count, out_words + begin);
  });
}

void decode_bf16(const std::uint16_t* words, std::span<float> out_values) {
  by_lines(out_values, [&](std::int64_t begin, std::int64_t count) {
    loops().decode_bf16(words + begin, count, out_values.data() + begin);
  });
}

void reduce_bf16_into(std::span<float> inout, const std::uint16_t* words, ReduceOp op, bool words_first) {
  const auto reduce = loops().reduce_bf16[static_cast<int>(op)];
  by_lines(inout,
           [&](std::int64_t begin, std::int64_t count) { reduce(inout.data() + begin, words + begin, count, words_first); });
}

}  // namespace floodtide::comm
