// SPDX-License-Identifier: Apache-2.0
#include "train/walker.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace floodtide::train {
namespace {

/// Return where the fields of view of an example begin, if the network calls every voxel object.
std::vector<Vec3> moves_at(const data::Cursor& cursor, std::uint64_t seed) {
  Walker walker(cursor.walker, {.fov = {3, 3, 3}, .deltas = {1, 1, 1}});
  data::Example example{};
  example.cursor = cursor;
  walker.begin(std::move(example), seed);
  std::vector<Vec3> starts;
  std::vector<float> object(27, flood::logit(0.95));
  while (const auto box = walker.advance()) {
    walker.update(*box, {object.data(), {3, 3, 3}});
    starts.push_back(box->start);
  }
  return starts;
}

TEST(Walker, EachExampleOfEachWalkerHasItsOwnOrderOfMoves) {
  const std::vector<Vec3> moves = moves_at({1, 2, 3}, 5);
  EXPECT_EQ(moves.size(), 27U);
  EXPECT_EQ(moves, moves_at({1, 2, 3}, 5));
  for (const data::Cursor other : {data::Cursor{0, 2, 3}, {1, 0, 3}, {1, 2, 4}}) EXPECT_NE(moves, moves_at(other, 5));
  EXPECT_NE(moves, moves_at({1, 2, 3}, 6));
}

}  // namespace
}  // namespace floodtide::train
