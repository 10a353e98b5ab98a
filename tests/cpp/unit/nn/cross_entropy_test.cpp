// SPDX-License-Identifier: Apache-2.0
#include "nn/cross_entropy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace floodtide::nn {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

TEST(CrossEntropy, EqualsItsDefinition) {
  for (const double logit : {-5.0, -0.3, 0.0, 1.7, 8.0}) {
    for (const double label : {0.0, 0.05, 0.5, 1.0}) {
      const double p = 1 / (1 + std::exp(-logit));
      const double expected = -label * std::log(p) - (1 - label) * std::log(1 - p);
      // The tolerance includes the error of `expected`: 1 - p loses precision by a factor of up to exp(logit).
      EXPECT_NEAR(cross_entropy(logit, label).loss, expected, 4 * kEpsilon * (1 + std::exp(logit)));
      EXPECT_NEAR(cross_entropy(logit, label).probability, p, 2 * kEpsilon);
    }
  }
}

TEST(CrossEntropy, StaysFiniteForHugeLogits) {
  EXPECT_EQ(cross_entropy(1e4, 0).loss, 1e4);
  EXPECT_EQ(cross_entropy(1e4, 1).loss, 0);
  EXPECT_EQ(cross_entropy(-1e4, 1).loss, 1e4);
  EXPECT_EQ(cross_entropy(-1e4, 0).probability, 0);
}

TEST(CrossEntropy, DerivativeIsProbabilityMinusLabel) {
  const double h = 1e-6, logit = 0.7, label = 0.95;
  const double measured = (cross_entropy(logit + h, label).loss - cross_entropy(logit - h, label).loss) / (2 * h);
  EXPECT_NEAR(measured, cross_entropy(logit, label).probability - label, 4 * kEpsilon / h);
}

}  // namespace
}  // namespace floodtide::nn
