// SPDX-License-Identifier: Apache-2.0
#include "floodtide/tensor/box.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace floodtide {
namespace {

TEST(Box, CentredBoxHasItsMiddleAtTheCentre) {
  const Box box = centred_box({10, 20, 30}, {3, 5, 7});
  EXPECT_EQ(box.start, (Vec3{9, 18, 27}));
  EXPECT_EQ(box.end(), (Vec3{12, 23, 34}));
}

TEST(Box, ContainsItsVoxelsAndNothingElse) {
  const Box box{{1, 2, 3}, {2, 2, 2}};
  EXPECT_TRUE(box.contains(Vec3{1, 2, 3}));
  EXPECT_FALSE(box.contains(Vec3{3, 2, 3}));
  EXPECT_TRUE(box.contains(Box{{1, 2, 4}, {2, 1, 1}}));
  EXPECT_FALSE(box.contains(Box{{1, 2, 4}, {2, 1, 2}}));
}

TEST(Box, CopyAndPasteAreInverse) {
  Tensor<int, 3> whole({4, 5, 6});
  std::iota(whole.span().begin(), whole.span().end(), 0);
  const Box box{{1, 2, 3}, {2, 3, 2}};
  Tensor<int, 3> crop(box.size);
  copy_box<int>(whole.view(), box, crop.view());
  EXPECT_EQ(crop.view()(0, 0, 0), whole.view()(1, 2, 3));
  EXPECT_EQ(crop.view()(1, 2, 1), whole.view()(2, 4, 4));
  for (int& value : crop.span()) value = -value;
  paste_box<int>(crop.view(), whole.view(), box);
  EXPECT_EQ(whole.view()(2, 4, 4), -(2 * 30 + 4 * 6 + 4));
  EXPECT_EQ(whole.view()(3, 4, 5), 3 * 30 + 4 * 6 + 5);
}

}  // namespace
}  // namespace floodtide
