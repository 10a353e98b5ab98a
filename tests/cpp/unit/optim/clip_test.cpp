// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/clip.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::optim {
namespace {

TEST(SquareSum, IsExactToDoublePrecisionWithTheSameBitsOnAnyNumberOfThreads) {
  Philox random(1, 1);
  std::vector<float> values(100'003);
  double expected = 0;
  for (float& value : values) {
    value = static_cast<float>(random.normal());
    expected += double{value} * double{value};
  }
  SquareSum sum(std::ssize(values));
  set_num_threads(1);
  const double one = sum(values);
  set_num_threads(3);
  EXPECT_EQ(sum(values), one);
  set_num_threads(1);
  EXPECT_NEAR(one, expected, 1e-12 * expected);
  EXPECT_EQ(sum({}), 0);
}

TEST(SquareSum, IsFiniteExactlyIfAllValuesAre) {
  std::vector<float> values(1000, std::numeric_limits<float>::max());
  SquareSum sum(1000);
  EXPECT_TRUE(std::isfinite(sum(values)));
  values[999] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(sum(values)));
  values[999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(sum(values)));
}

TEST(NormFactor, LimitsTheNormAndKeepsSmallGradients) {
  EXPECT_NEAR(norm_factor(10, 2), 0.2, 1e-7);
  EXPECT_EQ(norm_factor(1, 2), 1);
  EXPECT_EQ(norm_factor(0, 2), 1);
}

}  // namespace
}  // namespace floodtide::optim
