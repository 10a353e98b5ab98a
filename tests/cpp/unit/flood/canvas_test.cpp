// SPDX-License-Identifier: Apache-2.0
#include "floodtide/flood/canvas.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::flood {
namespace {

constexpr float kPad = -3.0F;

Tensor<float, 3> filled(const Vec3& shape, float value) {
  Tensor<float, 3> tensor(shape);
  std::fill(tensor.span().begin(), tensor.span().end(), value);
  return tensor;
}

TEST(Canvas, ShowsThePadWhereNothingWasVisited) {
  Canvas canvas({5, 6, 7}, {3, 3, 5}, kPad);
  canvas.reset({2, 2, 3}, 2.0F);
  Tensor<float, 3> fov({3, 3, 5});
  canvas.cut({2, 2, 3}, fov.view());
  EXPECT_EQ(fov.view()(1, 1, 2), 2.0F);
  EXPECT_EQ(std::count(fov.span().begin(), fov.span().end(), kPad), 44);
  EXPECT_TRUE(std::isnan(canvas[Vec3{0, 0, 0}]));
}

TEST(Canvas, ForgetsEverythingOnReset) {
  Canvas canvas({9, 9, 9}, {3, 3, 3}, kPad);
  canvas.reset({4, 4, 4}, 2.0F);
  canvas.paste({1, 1, 1}, filled({3, 3, 3}, 1.0F).view());
  canvas.paste({7, 7, 7}, filled({3, 3, 3}, 1.0F).view());
  EXPECT_EQ(canvas[Vec3({8, 8, 8})], 1.0F);
  canvas.reset({3, 3, 3}, 2.0F);
  const auto logits = canvas.logits().span();
  EXPECT_EQ(std::count_if(logits.begin(), logits.end(), [](float value) { return !std::isnan(value); }), 1);
  EXPECT_EQ(canvas[Vec3({3, 3, 3})], 2.0F);
}

TEST(Canvas, FindsTheVisitedVoxelsOfABox) {
  Canvas canvas({9, 9, 40}, {3, 3, 3}, kPad);
  canvas.reset({4, 4, 4}, 2.0F);
  canvas.paste({7, 7, 38}, filled({3, 3, 3}, 7.0F).view());  // forgotten with the next seed
  canvas.reset({4, 4, 4}, 2.0F);
  canvas.paste({4, 4, 4}, filled({3, 3, 3}, 1.0F).view());
  canvas.paste({4, 4, 30}, filled({3, 3, 3}, 1.0F).view());
  canvas.paste({7, 1, 20}, filled({3, 3, 3}, 1.0F).view());
  for (const Box& box : {Box{{}, canvas.shape()}, Box{{5, 0, 5}, {4, 9, 16}}, Box{{8, 8, 0}, {1, 1, 40}}}) {
    std::vector<Vec3> expected;
    for_each_voxel(box, [&](const Vec3& voxel) {
      if (!std::isnan(canvas[voxel])) expected.push_back(voxel);
    });
    std::vector<Vec3> found;
    std::int64_t looked_at = 0;
    canvas.for_each_touched(box, [&](const Vec3& voxel, float logit) {
      ++looked_at;
      if (std::isnan(logit)) return;
      EXPECT_EQ(logit, canvas[voxel]);
      found.push_back(voxel);
    });
    EXPECT_EQ(found, expected);
    EXPECT_LE(looked_at, 9 * (29 + 3)) << "rows from the first to the last visited voxel only";
  }
}

TEST(Canvas, KnowsWhereAFieldOfViewFits) {
  const Canvas canvas({5, 5, 9}, {5, 3, 3}, kPad);
  EXPECT_TRUE(canvas.holds_fov({2, 1, 1}));
  EXPECT_TRUE(canvas.holds_fov({2, 3, 7}));
  EXPECT_FALSE(canvas.holds_fov({1, 1, 1}));
  EXPECT_FALSE(canvas.holds_fov({2, 4, 1}));
  EXPECT_FALSE(canvas.holds_fov({2, 1, 8}));
}

TEST(Canvas, KeepsBackgroundOnceMuchOfTheViewIsObject) {
  Canvas canvas({3, 3, 3}, {3, 3, 3}, kPad);
  canvas.reset({1, 1, 1}, 2.0F);
  Tensor<float, 3> before = filled({3, 3, 3}, -1.0F);
  before.view()(0, 0, 0) = 0.5F;
  canvas.paste({1, 1, 1}, before.view());
  Tensor<float, 3> after = filled({3, 3, 3}, 2.5F);
  after.view()(2, 2, 2) = -4.0F;
  Tensor<float, 3> rare = filled({3, 3, 3}, 2.5F);
  canvas.keep_disconnected({1, 1, 1}, 2.2F, 0.99, rare.view());
  EXPECT_EQ(rare.view()(0, 0, 1), -1.0F) << "27 of 27 voxels are object, more than 0.99";
  canvas.keep_disconnected({1, 1, 1}, 2.2F, 0.0, after.view());
  EXPECT_EQ(after.view()(0, 0, 0), 2.5F) << "was object: may rise";
  EXPECT_EQ(after.view()(1, 1, 1), -1.0F) << "was background: may not rise";
  EXPECT_EQ(after.view()(2, 2, 2), -4.0F) << "may always fall";
}

TEST(Canvas, LetsBackgroundRiseWhileNothingIsObject) {
  Canvas canvas({3, 3, 3}, {3, 3, 3}, kPad);
  canvas.paste({1, 1, 1}, filled({3, 3, 3}, -1.0F).view());
  Tensor<float, 3> after = filled({3, 3, 3}, 1.0F);
  canvas.keep_disconnected({1, 1, 1}, 2.2F, 0.0, after.view());
  EXPECT_EQ(after.view()(1, 1, 1), 1.0F);
}

TEST(Canvas, RefusesFieldsOfViewThatCannotBe) {
  EXPECT_THROW(Canvas({9, 9, 9}, {4, 3, 3}, kPad), Error);
  EXPECT_THROW(Canvas({9, 9, 9}, {3, 11, 3}, kPad), Error);
}

TEST(Logit, IsTakenOfTheProbabilityRoundedToFloat) {
  const auto p = static_cast<double>(0.9F);
  EXPECT_EQ(google_ffn_logit(0.9, "move_threshold"), std::log(p / (1.0 - p)));
  EXPECT_NE(google_ffn_logit(0.9, "move_threshold"), std::log(0.9 / (1.0 - 0.9)));
  EXPECT_THROW(static_cast<void>(google_ffn_logit(1.0, "move_threshold")), Error);
  EXPECT_THROW(static_cast<void>(google_ffn_logit(0.0, "move_threshold")), Error);
}

}  // namespace
}  // namespace floodtide::flood
