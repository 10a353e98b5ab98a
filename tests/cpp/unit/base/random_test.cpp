// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace floodtide {
namespace {

// Known answers from the Random123 library of the authors (kat_vectors, philox4x32-10).
TEST(Philox, KnownAnswerOfTheZeroKey) {
  const auto x = Philox(0, 0).block();
  EXPECT_EQ(x, (std::array<std::uint32_t, 4>{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
}

TEST(Philox, KnownAnswerOfTheAllOnesKey) {
  const auto x = Philox(~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}).block();
  EXPECT_EQ(x, (std::array<std::uint32_t, 4>{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
}

TEST(Philox, CounterContinuesTheStream) {
  Philox first(7, 3);
  static_cast<void>(first.bits());
  Philox second(7, 3, first.counter());
  EXPECT_EQ(first.bits(), second.bits());
}

TEST(Philox, MomentsOfUniformAndNormal) {
  Philox random(1, 2);
  constexpr int kDraws = 200'000;
  double sum = 0, sum_normal = 0, square_normal = 0;
  for (int i = 0; i < kDraws; ++i) {
    sum += random.uniform();
    const double x = random.normal();
    sum_normal += x;
    square_normal += x * x;
  }
  // Tolerance: five standard errors of each mean.
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(sum_normal / kDraws, 0.0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(square_normal / kDraws, 1.0, 5 * std::sqrt(2.0 / kDraws));
}

TEST(Philox, BelowStaysInsideAndReachesAll) {
  Philox random(5, 0);
  std::vector<int> seen(7, 0);
  for (int i = 0; i < 1000; ++i) ++seen.at(random.below(7));
  for (const int count : seen) EXPECT_GT(count, 0);
}

TEST(IndexPermutation, IsABijectionThatDependsOnSeedAndStream) {
  for (const std::uint64_t size : {1U, 2U, 3U, 16U, 17U, 1000U}) {
    const IndexPermutation permutation(11, 4, size);
    std::vector<bool> hit(size, false);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t image = permutation(i);
      ASSERT_LT(image, size);
      ASSERT_FALSE(hit[image]);
      hit[image] = true;
    }
  }
  int equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) equal += IndexPermutation(11, 4, 1000)(i) == IndexPermutation(11, 5, 1000)(i);
  EXPECT_LT(equal, 20);
}

}  // namespace
}  // namespace floodtide
