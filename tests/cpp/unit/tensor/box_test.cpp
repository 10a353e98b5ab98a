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

TEST(Box, GrowsAndMeetsOthers) {
  const Box box{{2, 3, 4}, {5, 6, 7}};
  EXPECT_EQ(box.grown({1, 0, 2}), (Box{{1, 3, 2}, {7, 6, 11}}));
  EXPECT_EQ(box.middle(), (Vec3{4, 6, 7}));
  EXPECT_EQ(intersection(box, {{0, 5, 10}, {4, 9, 9}}), (Box{{2, 5, 10}, {2, 4, 1}}));
  EXPECT_EQ(intersection(box, {{7, 3, 4}, {5, 6, 7}}).voxels(), 0);
  EXPECT_EQ(intersection(box, {{20, 20, 20}, {1, 1, 1}}).size, (Vec3{0, 0, 0}));
}

TEST(Box, PositionsFollowTheOrderOfItsVoxels) {
  const Box box{{-1, 2, 3}, {2, 3, 4}};
  std::int64_t index = 0;
  for_each_voxel(box, [&](const Vec3& at) { EXPECT_EQ(box.start + position_of(index++, box.size), at); });
  EXPECT_EQ(index, box.voxels());
}

}  // namespace
}  // namespace floodtide
