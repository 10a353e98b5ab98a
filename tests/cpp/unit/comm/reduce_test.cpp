// SPDX-License-Identifier: Apache-2.0
#include "comm/reduce/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/isa_scope.hpp"
#include "support/collective_values.hpp"

namespace floodtide {
namespace {

using comm::ReduceOp;
using comm::ReduceType;

constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product};

/// Calls body at every instruction-set level that the processor supports.
template <class Body>
void at_every_level(Body&& body) {
  for (const Isa level : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (level > processor_isa()) continue;
    const IsaScope scope(level);
    body(std::string(name(level)));
  }
}

/// Return floats of all kinds: every exponent, both signs, zeros, infinities, subnormal numbers, and ties of the rounding.
std::vector<float> all_kinds(std::size_t count, unsigned seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0F, -0.0F, kInfinity, -kInfinity, 1.00390625F, 1.01171875F, 3.4e38F, -3.4e38F, 1e-45F};
  std::mt19937 random(seed);
  while (values.size() < count) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) values.push_back(value);
  }
  values.resize(count);
  return values;
}

/// Round to the nearest bfloat16, ties to even, by comparing the two neighbours.
float nearest_bf16(float value) {
  if (!std::isfinite(value)) return value;
  const std::uint32_t low = std::bit_cast<std::uint32_t>(value) & 0xFFFF0000U;
  const double down = std::bit_cast<float>(low);
  const float next = std::bit_cast<float>(low + 0x10000U);
  const double up = std::isinf(next) ? std::copysign(std::ldexp(1.0, 128), value) : static_cast<double>(next);
  const double to_down = std::abs(value - down);
  const double to_up = std::abs(value - up);
  if (to_down < to_up || (to_down == to_up && ((low >> 16U) & 1U) == 0)) return static_cast<float>(down);
  return next;
}

bool same_bits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

TEST(Bf16, IsTheNearestAtEveryLevelAndLength) {
  at_every_level([](const std::string& level) {
    for (const std::size_t count : {0U, 1U, 15U, 16U, 17U, 63U, 4099U}) {
      const std::vector<float> values = all_kinds(count, 3);
      std::vector<std::uint16_t> words(count + 1, 0xABCD);
      std::vector<float> decoded(count + 1, 7.0F);
      comm::encode_bf16(values, words.data());
      comm::decode_bf16(words.data(), std::span(decoded).first(count));
      std::vector<float> rounded = values;
      std::vector<std::uint16_t> again(count);
      comm::encode_bf16_and_round(rounded, again.data());
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(same_bits(decoded[i], nearest_bf16(values[i]))) << level << " " << values[i] << " " << decoded[i];
        ASSERT_TRUE(same_bits(rounded[i], decoded[i]));
        ASSERT_EQ(again[i], words[i]);
      }
      EXPECT_EQ(words[count], 0xABCD);
      EXPECT_EQ(decoded[count], 7.0F);
    }
  });
}

TEST(Bf16, KeepsNan) {
  at_every_level([](const std::string& level) {
    for (const std::uint32_t bits : {0x7F800001U, 0xFFFFFFFFU, 0x7FFFFFFFU, 0x7FC00000U}) {
      std::vector<float> values(33, std::bit_cast<float>(bits));
      std::vector<std::uint16_t> words(33);
      comm::encode_bf16(values, words.data());
      comm::decode_bf16(words.data(), values);
      for (const float value : values) EXPECT_TRUE(std::isnan(value)) << level;
    }
  });
}

template <class T>
T expected(ReduceOp op, T first, T second) {
  if constexpr (std::is_integral_v<T>) {
    T result{};
    if (op == ReduceOp::sum) return static_cast<void>(__builtin_add_overflow(first, second, &result)), result;
    if (op == ReduceOp::product) return static_cast<void>(__builtin_mul_overflow(first, second, &result)), result;
  } else {
    if (op == ReduceOp::sum) return first + second;
    if (op == ReduceOp::product) return first * second;
  }
  if (first != first) return first;
  return (op == ReduceOp::min ? first < second : first > second) ? first : second;
}

template <class T>
void check_reduce(ReduceType type, const std::vector<T>& mine, const std::vector<T>& theirs, const std::string& level) {
  for (const ReduceOp op : kAllOps) {
    for (const bool other_first : {false, true}) {
      std::vector<T> inout = mine;
      comm::reduce_into({reinterpret_cast<std::byte*>(inout.data()), static_cast<std::int64_t>(inout.size()), type},
                        reinterpret_cast<const std::byte*>(theirs.data()), op, other_first);
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const T right = other_first ? expected(op, theirs[i], mine[i]) : expected(op, mine[i], theirs[i]);
        const bool both_nan = inout[i] != inout[i] && right != right;
        ASSERT_TRUE(both_nan || std::memcmp(&inout[i], &right, sizeof(T)) == 0) << level << " " << name(op);
      }
    }
  }
}

template <class T>
void check_reduce_of_integers(ReduceType type, std::size_t count, const std::string& level) {
  std::mt19937_64 random(count);
  std::vector<T> mine(count);
  std::vector<T> theirs(count);
  for (auto& value : mine) value = static_cast<T>(random());
  for (auto& value : theirs) value = static_cast<T>(random());
  check_reduce<T>(type, mine, theirs, level);
}

TEST(Reduce, GivesTheSameBitsAtEveryLevel) {
  at_every_level([](const std::string& level) {
    for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 4099U}) {
      std::vector<float> mine = all_kinds(count, 5);
      std::vector<float> theirs = all_kinds(count, 6);
      std::ranges::reverse(theirs);
      if (count > 8) mine[3] = theirs[5] = std::numeric_limits<float>::quiet_NaN();
      if (count > 8) theirs[0] = -mine[0];  // zeros of both signs
      check_reduce<float>(ReduceType::float32, mine, theirs, level);
      check_reduce<double>(ReduceType::float64, {mine.begin(), mine.end()}, {theirs.begin(), theirs.end()}, level);
      check_reduce_of_integers<std::int64_t>(ReduceType::int64, count, level);
      check_reduce_of_integers<std::int32_t>(ReduceType::int32, count, level);
      check_reduce_of_integers<std::uint8_t>(ReduceType::uint8, count, level);
      check_reduce_of_integers<std::int8_t>(ReduceType::int8, count, level);
    }
  });
}

/// Return the float16 nearest to a value, ties to even, by a search over all float16 numbers.
std::uint16_t nearest_half(double value) {
  if (std::isnan(value)) return 0x7E00;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (magnitude >= 65520) return sign | 0x7C00U;  // from the middle between the largest float16 and the next power of two
  std::uint16_t low = 0;                          // largest float16 up to `magnitude`; bits and magnitudes have the same order
  for (std::uint16_t bit = 0x4000; bit != 0; bit >>= 1U) {
    const auto next = static_cast<std::uint16_t>(low | bit);
    if (next < 0x7C00 && test::half_value(next) <= magnitude) low = next;
  }
  if (low == 0x7BFF) return sign | low;
  const double below = magnitude - test::half_value(low);
  const double above = test::half_value(static_cast<std::uint16_t>(low + 1)) - magnitude;
  const bool up = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (low + (up ? 1 : 0)));
}

bool same_half(std::uint16_t a, std::uint16_t b) {
  const bool both_nan = (a & 0x7FFFU) > 0x7C00U && (b & 0x7FFFU) > 0x7C00U;
  return a == b || both_nan;
}

void reduce_halves(std::vector<std::uint16_t>& inout, const std::vector<std::uint16_t>& other, ReduceOp op, bool other_first) {
  comm::reduce_into({reinterpret_cast<std::byte*>(inout.data()), std::ssize(inout), ReduceType::float16},
                    reinterpret_cast<const std::byte*>(other.data()), op, other_first);
}

TEST(ReduceHalf, EveryValuePassesUnchangedAtEveryLevel) {
  at_every_level([](const std::string& level) {
    std::vector<std::uint16_t> halves(65536);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
    const std::vector<std::uint16_t> ones(halves.size(), 0x3C00);
    std::vector<std::uint16_t> products = halves;
    reduce_halves(products, ones, ReduceOp::product, false);
    for (std::size_t i = 0; i < halves.size(); ++i) ASSERT_TRUE(same_half(products[i], halves[i])) << level << " " << i;
  });
}

TEST(ReduceHalf, IsTheNearestToTheExactResultAtEveryLevelAndLength) {
  at_every_level([](const std::string& level) {
    std::mt19937 random(11);
    for (const std::size_t count : {0U, 1U, 7U, 8U, 9U, 255U, 256U, 257U, 20011U}) {
      std::vector<std::uint16_t> mine(count);
      std::vector<std::uint16_t> theirs(count);
      for (auto& half : mine) half = static_cast<std::uint16_t>(random());
      for (auto& half : theirs) half = static_cast<std::uint16_t>(random());
      for (const ReduceOp op : kAllOps) {
        for (const bool other_first : {false, true}) {
          std::vector<std::uint16_t> inout = mine;
          reduce_halves(inout, theirs, op, other_first);
          for (std::size_t i = 0; i < count; ++i) {
            // Sums and products of two float16 numbers are exact in double.
            const double a = test::half_value(other_first ? theirs[i] : mine[i]);
            const double b = test::half_value(other_first ? mine[i] : theirs[i]);
            ASSERT_TRUE(same_half(inout[i], nearest_half(expected(op, a, b))))
                << level << " " << name(op) << " of " << a << " and " << b << ": " << test::half_value(inout[i]);
          }
        }
      }
    }
  });
}

TEST(Reduce, NeutralValuesChangeNothing) {
  for (int type = 0; type < comm::kReduceTypes; ++type) {
    const auto element_type = static_cast<ReduceType>(type);
    const std::size_t bytes = comm::element_bytes(element_type);
    std::mt19937 random(5);
    std::vector<std::byte> values(99 * bytes);
    for (auto& byte : values) byte = static_cast<std::byte>(random() % 120);  // no NaN and no infinity in any type
    for (const ReduceOp op : kAllOps) {
      std::vector<std::byte> inout(values.size());
      comm::fill_neutral({inout.data(), 99, element_type}, op);
      comm::reduce_into({inout.data(), 99, element_type}, values.data(), op, false);
      EXPECT_EQ(inout, values) << name(element_type) << " " << name(op);
    }
  }
}

TEST(Reduce, OfWordsIsTheReductionOfWhatTheyMean) {
  at_every_level([](const std::string& level) {
    const std::vector<float> mine = all_kinds(1009, 8);
    std::vector<std::uint16_t> words(mine.size());
    comm::encode_bf16(all_kinds(1009, 9), words.data());
    std::vector<float> theirs(mine.size());
    comm::decode_bf16(words.data(), theirs);
    for (const ReduceOp op : kAllOps) {
      for (const std::size_t begin : {0, 1, 15, 16}) {  // arrays may begin anywhere in a cache line
        for (const bool words_first : {false, true}) {
          std::vector<float> inout = mine;
          comm::reduce_bf16_into(std::span(inout).subspan(begin), words.data() + begin, op, words_first);
          for (std::size_t i = 0; i < mine.size(); ++i) {
            const float both = words_first ? expected(op, theirs[i], mine[i]) : expected(op, mine[i], theirs[i]);
            const float right = i < begin ? mine[i] : both;
            ASSERT_TRUE(same_bits(inout[i], right) || (std::isnan(inout[i]) && std::isnan(right))) << level << " " << i;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace floodtide
