// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce.hpp"

#include <bit>
#include <type_traits>

namespace floodtide::comm {
namespace {

// The comparisons keep a NaN of either side: x != x holds only for NaN, and a comparison with NaN is false.
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
struct Sum {
  template <class T>
  static T combine(T first, T second) {
    if constexpr (std::is_integral_v<T>) {  // unsigned: defined when it overflows
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(first) + static_cast<std::make_unsigned_t<T>>(second));
    } else {
      return first + second;
    }
  }
};

float from_bf16(std::uint16_t word) { return std::bit_cast<float>(static_cast<std::uint32_t>(word) << 16U); }

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  const std::uint32_t nan = (bits >> 16U) | 0x40U;  // quiet: rounding could turn a NaN into an infinity
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded);
}

template <class T>
struct Plain {
  const T* values;
  T operator()(std::int64_t i) const { return values[i]; }
};
struct Decoded {
  const std::uint16_t* words;
  float operator()(std::int64_t i) const { return from_bf16(words[i]); }
};

template <class Operation, class T, class Other>
void combine_values(T* __restrict inout, const Other other, std::int64_t count, bool other_first) {
  if (other_first) {
    for (std::int64_t i = 0; i < count; ++i) inout[i] = Operation::combine(other(i), inout[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) inout[i] = Operation::combine(inout[i], other(i));
  }
}

template <class T, class Other>
void reduce_values(T* inout, const Other& other, std::int64_t count, ReduceOp op, bool other_first) {
  switch (op) {
    case ReduceOp::sum: combine_values<Sum>(inout, other, count, other_first); break;
    case ReduceOp::min: combine_values<Minimum>(inout, other, count, other_first); break;
    case ReduceOp::max: combine_values<Maximum>(inout, other, count, other_first); break;
  }
}

template <class T>
void reduce_bytes(const ReduceBuffer& inout, const std::byte* other, ReduceOp op, bool other_first) {
  reduce_values(reinterpret_cast<T*>(inout.data), Plain<T>{reinterpret_cast<const T*>(other)}, inout.count, op, other_first);
}

std::int64_t count_of(std::span<const float> values) { return static_cast<std::int64_t>(values.size()); }

}  // namespace

void reduce_into(const ReduceBuffer& inout, const std::byte* other, ReduceOp op, bool other_first) {
  switch (inout.type) {
    case ElementType::float32: reduce_bytes<float>(inout, other, op, other_first); break;
    case ElementType::float64: reduce_bytes<double>(inout, other, op, other_first); break;
    case ElementType::int64: reduce_bytes<std::int64_t>(inout, other, op, other_first); break;
  }
}

void encode_bf16(std::span<const float> values, std::uint16_t* __restrict out_words) {
  const float* const from = values.data();
  for (std::int64_t i = 0; i < count_of(values); ++i) out_words[i] = to_bf16(from[i]);
}

void encode_bf16_and_round(std::span<float> inout_values, std::uint16_t* __restrict out_words) {
  float* const values = inout_values.data();
  for (std::int64_t i = 0; i < count_of(inout_values); ++i) {
    const std::uint16_t word = to_bf16(values[i]);
    out_words[i] = word;
    values[i] = from_bf16(word);
  }
}

void decode_bf16(const std::uint16_t* __restrict words, std::span<float> out_values) {
  float* const to = out_values.data();
  for (std::int64_t i = 0; i < count_of(out_values); ++i) to[i] = from_bf16(words[i]);
}

void reduce_bf16_into(std::span<float> inout, const std::uint16_t* words, ReduceOp op, bool words_first) {
  reduce_values(inout.data(), Decoded{words}, count_of(inout), op, words_first);
}

}  // namespace floodtide::comm
