// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/clip.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::optim {
namespace {

TEST(ClipEntries, LimitsBothSidesAndKeepsNan) {
  std::vector<float> gradients = {-2, -0.7F, 0.1F, 5, std::numeric_limits<float>::quiet_NaN()};
  clip_entries(gradients, 0.7);
  EXPECT_EQ(std::vector<float>(gradients.begin(), gradients.begin() + 4), (std::vector<float>{-0.7F, -0.7F, 0.1F, 0.7F}));
  EXPECT_TRUE(std::isnan(gradients[4]));
  EXPECT_THROW(clip_entries(gradients, 0), Error);
}

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

TEST(AdaptiveClip, LimitsEachOutputChannelByItsWeights) {
  ParameterLayout layout;
  layout.add("weights", {2, 2});  // rows: inputs; columns: outputs
  layout.add("biases", {2});
  layout.add_statistic("mean", {2});
  const std::vector<float> parameters = {3, 0, 4, 0, 6, 8};
  std::vector<float> gradients = {0.6F, 3e-3F, 0.8F, 4e-3F, 0.03F, 0.04F};
  AdaptiveClip clip(layout, 0.1);
  clip(parameters, gradients, 1);
  EXPECT_FLOAT_EQ(gradients[0], 0.3F);  // the norm 1 is limited to a tenth of 5
  EXPECT_FLOAT_EQ(gradients[2], 0.4F);
  EXPECT_FLOAT_EQ(gradients[1], 6e-5F);  // the norm 5e-3 is limited to a tenth of 1e-3: weights of zero can still move
  EXPECT_FLOAT_EQ(gradients[3], 8e-5F);
  EXPECT_FLOAT_EQ(gradients[4], 0.03F);  // below the limit of 1
  gradients[4] = 0.6F, gradients[5] = 0.8F;
  clip(parameters, gradients, 2);  // counts as 1.2 and 1.6, norm 2
  EXPECT_FLOAT_EQ(gradients[4], 0.3F);
  EXPECT_THROW(AdaptiveClip(layout, 0), Error);
}

}  // namespace
}  // namespace floodtide::optim
