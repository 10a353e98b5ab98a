// SPDX-License-Identifier: Apache-2.0
#include "floodtide/flood/face_max.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::flood {
namespace {

constexpr auto kAnywhere = [](const Vec3&) { return true; };

Tensor<float, 3> background(const Vec3& shape) {
  Tensor<float, 3> logits(shape);
  std::fill(logits.span().begin(), logits.span().end(), -5.0F);
  return logits;
}

std::vector<Vec3> offsets(const FaceMoves& moves) {
  std::vector<Vec3> result;
  for (const FaceMove& move : moves.span()) result.push_back(move.offset);
  return result;
}

TEST(FaceMaxima, AreSortedByLogitThenOffset) {
  Tensor<float, 3> logits = background({5, 5, 5});
  logits.view()(0, 2, 2) = 1.0F;  // not on a face, because deltas are 1
  logits.view()(1, 2, 2) = 2.0F;
  logits.view()(3, 2, 2) = 3.0F;
  logits.view()(2, 2, 1) = 2.0F;
  EXPECT_EQ(offsets(face_maxima(logits.view(), {1, 1, 1}, 2.0)), (std::vector<Vec3>{{1, 0, 0}, {0, 0, -1}, {-1, 0, 0}}));
}

TEST(FaceMaxima, TakeTheFirstOfEqualLogits) {
  Tensor<float, 3> logits = background({5, 5, 5});
  for (float& value : logits.span()) value = 4.0F;
  // All logits of a face are equal, so that its first voxel, the lowest corner, is used. Some faces share this voxel.
  EXPECT_EQ(offsets(face_maxima(logits.view(), {1, 1, 1}, 2.0)),
            (std::vector<Vec3>{{1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}, {-1, -1, -1}}));
}

TEST(FaceMaxima, HaveNoFacesAcrossAnAxisWithoutStep) {
  Tensor<float, 3> logits = background({3, 5, 5});
  logits.view()(0, 2, 2) = 9.0F;
  logits.view()(1, 4, 3) = 3.0F;
  EXPECT_EQ(offsets(face_maxima(logits.view(), {0, 2, 2}, 2.0)), (std::vector<Vec3>{{0, 2, 1}}));
}

TEST(FaceMaxima, MustReachTheThreshold) {
  Tensor<float, 3> logits = background({3, 3, 3});
  logits.view()(0, 1, 1) = 2.0F;
  EXPECT_EQ(face_maxima(logits.view(), {1, 1, 1}, 2.0).count, 1U);
  EXPECT_EQ(face_maxima(logits.view(), {1, 1, 1}, 2.0000001).count, 0U);
}

TEST(FaceMaxima, RefuseStepsThatLeaveTheFieldOfView) {
  const Tensor<float, 3> logits = background({3, 3, 3});
  EXPECT_THROW(static_cast<void>(face_maxima(logits.view(), {2, 1, 1}, 2.0)), Error);
}

TEST(FaceMaxMoves, VisitsEachCellOnceAndAsksAtTheLatestMoment) {
  FaceMaxMoves moves({8, 8, 8}, 2.0);
  moves.reset({20, 20, 20});
  EXPECT_EQ(moves.next(kAnywhere), (Vec3{20, 20, 20}));
  Tensor<float, 3> logits = background({17, 17, 17});
  logits.view()(0, 8, 8) = 5.0F;   // cell (-1, 0, 0)
  logits.view()(8, 8, 16) = 4.0F;  // cell (0, 0, 1)
  moves.evaluated({20, 20, 20}, logits.view());
  EXPECT_EQ(moves.next([](const Vec3& position) { return position[0] == 20; }), (Vec3{20, 20, 28}));
  moves.evaluated({20, 20, 28}, background({17, 17, 17}).view());
  EXPECT_EQ(moves.next(kAnywhere), std::nullopt) << "refused positions are dropped, not kept";
}

TEST(FaceMaxMoves, CellsAreCentredOnTheStart) {
  FaceMaxMoves moves({8, 8, 8}, 2.0);
  moves.reset({20, 20, 20});
  static_cast<void>(moves.next(kAnywhere));
  Tensor<float, 3> logits = background({17, 17, 17});
  logits.view()(0, 8, 8) = 5.0F;
  moves.evaluated({20, 20, 20}, background({17, 17, 17}).view());
  moves.evaluated({23, 20, 20}, logits.view());  // queues (15, 20, 20), which is in another cell
  EXPECT_EQ(moves.next(kAnywhere), (Vec3{15, 20, 20}));
  moves.evaluated({24, 20, 20}, logits.view());  // queues (16, 20, 20): (16 - 20 + 4) / 8 = 0, the cell of the start
  EXPECT_EQ(moves.next(kAnywhere), std::nullopt);
}

}  // namespace
}  // namespace floodtide::flood
