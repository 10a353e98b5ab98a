// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/decision_points.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "floodtide/base/error.hpp"

namespace floodtide::segment {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

void fill(Tensor<std::uint64_t, 3>& labels, const Box& box, std::uint64_t id) {
  for (std::int64_t z = box.start[0]; z < box.end()[0]; ++z) {
    for (std::int64_t y = box.start[1]; y < box.end()[1]; ++y) {
      for (std::int64_t x = box.start[2]; x < box.end()[2]; ++x) labels.view()(z, y, x) = id;
    }
  }
}

std::vector<DecisionPoint> points_of(const Tensor<std::uint64_t, 3>& labels, double max_distance = kFar,
                                     const std::array<double, 3>& voxel_size = {1, 1, 1}) {
  return decision_points(labels.view(), voxel_size, max_distance, {{}, labels.shape()});
}

TEST(DecisionPoints, LieInTheMiddleBetweenTwoSlabs) {
  Tensor<std::uint64_t, 3> labels({100, 80, 60});
  fill(labels, {{0, 0, 0}, {40, 80, 60}}, 7);
  fill(labels, {{60, 0, 0}, {40, 80, 60}}, 3);
  const auto points = points_of(labels);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_EQ(points[0].a, 3U);
  EXPECT_EQ(points[0].b, 7U);
  EXPECT_EQ(points[0].distance, 10.0);
  EXPECT_EQ(points[0].position, (Vec3{49, 39, 29}));
  EXPECT_TRUE(points_of(labels, 9.0).empty());
  EXPECT_EQ(points_of(labels, kFar, {40, 4, 4})[0].distance, 400.0);
}

TEST(DecisionPoints, ExistForEachPairThatComesClose) {
  Tensor<std::uint64_t, 3> labels({1, 100, 100});
  fill(labels, {{0, 0, 0}, {1, 20, 20}}, 1);
  fill(labels, {{0, 0, 80}, {1, 20, 20}}, 2);
  fill(labels, {{0, 80, 40}, {1, 20, 20}}, 3);
  const auto points = points_of(labels);
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0].position, (Vec3{0, 9, 49}));
  EXPECT_EQ(points[1].b, 3U);
  EXPECT_EQ(points[2].a, 2U);
  ASSERT_EQ(points_of(labels, 30.0).size(), 1U);
  EXPECT_EQ(points_of(labels, 30.0)[0].b, 2U);
}

TEST(DecisionPoints, AreFoundInABoxWithItsNeighbours) {
  Tensor<std::uint64_t, 3> labels({4, 4, 10});
  fill(labels, {{0, 0, 0}, {4, 4, 5}}, 1);
  fill(labels, {{0, 0, 5}, {4, 4, 5}}, 2);
  const auto inside = [&](const Box& box) { return decision_points(labels.view(), {1, 1, 1}, kFar, box).size(); };
  EXPECT_EQ(inside({{0, 0, 0}, {4, 4, 4}}), 0U);
  EXPECT_EQ(inside({{0, 0, 4}, {4, 4, 1}}), 1U) << "the neighbour may lie outside of the box";
  EXPECT_EQ(inside({{0, 0, 5}, {4, 4, 5}}), 0U) << "the pair belongs to the voxel before";
  EXPECT_THROW(static_cast<void>(inside({{0, 0, 5}, {4, 4, 6}})), Error);
  EXPECT_THROW(static_cast<void>(points_of(labels, kFar, {1, 0, 1})), Error);
}

TEST(DecisionPoints, AreNoneInAnEmptyVolume) { EXPECT_TRUE(points_of(Tensor<std::uint64_t, 3>({3, 4, 5})).empty()); }

}  // namespace
}  // namespace floodtide::segment
