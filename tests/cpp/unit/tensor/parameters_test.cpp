// SPDX-License-Identifier: Apache-2.0
#include "floodtide/tensor/parameters.hpp"

#include <gtest/gtest.h>

#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

TEST(ParameterLayout, LaysArraysOutOneAfterAnother) {
  ParameterLayout layout;
  layout.add("w", {3, 3, 2});
  layout.add("b", {2});
  EXPECT_EQ(layout.size(), 20);
  EXPECT_EQ(layout.find("b").offset, 18);
  EXPECT_THROW(layout.add("w", {1}), Error);
  EXPECT_THROW(static_cast<void>(layout.find("x")), Error);
}

TEST(ParameterLayout, StatisticsComeAfterWhatIsTrained) {
  ParameterLayout layout;
  layout.add("weights", {2, 3});
  EXPECT_EQ(layout.trained_size(), 6);
  EXPECT_EQ(layout.add_statistic("mean", {3}), 1U);
  EXPECT_EQ(layout.trained_size(), 6);
  EXPECT_EQ(layout.size(), 9);
  EXPECT_THROW(layout.add("bias", {3}), Error);
}

}  // namespace
}  // namespace floodtide
