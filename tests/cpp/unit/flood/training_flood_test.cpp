// SPDX-License-Identifier: Apache-2.0
#include "floodtide/flood/training_flood.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide::flood {
namespace {

const TrainingFloodOptions kSmall{{5, 5, 5}, {2, 2, 2}, 0.05, 0.9};

std::vector<Vec3> shuffled_moves(std::uint64_t seed, std::uint64_t stream) {
  std::vector<Vec3> moves = fixed_moves({8, 8, 8});
  shuffle_moves(moves, seed, stream);
  return moves;
}

TEST(FixedMoves, AreTheCentreAndItsNeighboursInASeededOrder) {
  const auto moves = shuffled_moves(1, 2);
  EXPECT_EQ(moves.size(), 27U);
  EXPECT_EQ(moves.front(), (Vec3{0, 0, 0}));
  EXPECT_EQ((std::set<Vec3>(moves.begin(), moves.end()).size()), 27U);
  for (const Vec3& move : moves) {
    for (const std::int64_t step : move) EXPECT_TRUE(step == 0 || step == 8 || step == -8);
  }
  EXPECT_EQ(moves, shuffled_moves(1, 2));
  EXPECT_NE(moves, shuffled_moves(1, 3));
}

TEST(FixedMoves, AZeroDeltaLeavesNoDuplicates) { EXPECT_EQ(fixed_moves({0, 4, 4}).size(), 9U); }

TEST(TrainingFlood, StartsFromOneSeedVoxel) {
  TrainingFlood flood(kSmall);
  flood.begin(0, 0);
  const auto canvas = flood.canvas();
  EXPECT_EQ(canvas.shape(), (Vec3{9, 9, 9}));
  EXPECT_FLOAT_EQ(canvas(4, 4, 4), 2.944439F);
  EXPECT_EQ(std::ranges::count(canvas.span(), logit(0.05)), 9 * 9 * 9 - 1);
  EXPECT_FLOAT_EQ(canvas(0, 0, 0), -2.944439F);
}

TEST(TrainingFlood, MovesOnlyWhereTheObjectHasArrived) {
  TrainingFlood flood(kSmall);
  flood.begin(3, 1);
  EXPECT_EQ(flood.advance()->start, (Vec3{2, 2, 2}));  // the centre is never skipped
  EXPECT_FALSE(flood.advance().has_value());           // no other voxel is object

  flood.begin(3, 1);
  static_cast<void>(flood.advance());
  flood.canvas()(4, 4, 6) = logit(0.95);
  flood.canvas()(6, 4, 4) = logit(0.89);  // below the threshold
  EXPECT_EQ(flood.advance()->start, (Vec3{2, 2, 4}));
  EXPECT_FALSE(flood.advance().has_value());
}

TEST(TrainingFlood, ResumedFloodGoesOnAsTheOriginal) {
  TrainingFlood original(kSmall), resumed(kSmall);
  original.begin(7, 5);
  std::ranges::fill(original.canvas().span(), logit(0.95));
  for (int i = 0; i < 10; ++i) static_cast<void>(original.advance());
  resumed.resume(7, 5, original.move(), original.canvas());
  while (const auto box = original.advance()) EXPECT_EQ(resumed.advance(), box);
  EXPECT_FALSE(resumed.advance().has_value());
  EXPECT_THROW(resumed.resume(7, 5, 28, original.canvas()), Error);
}

TEST(TrainingFlood, RefusesAThresholdThatNoSeedReaches) {
  EXPECT_THROW(TrainingFlood({{5, 5, 5}, {2, 2, 2}, 0.05, 0.96}), Error);
  EXPECT_THROW(TrainingFlood({{5, 5, 5}, {2, 2, 2}, 0.0, 0.9}), Error);
}

}  // namespace
}  // namespace floodtide::flood
