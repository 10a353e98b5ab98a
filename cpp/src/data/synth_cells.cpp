// SPDX-License-Identifier: Apache-2.0
#include "data/synth_cells.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "data/blocks.hpp"
#include "data/synth_noise.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

constexpr Vec3 kBlock{8, 8, 8};
constexpr float kBend = 2.2F;       // voxels; standard deviation of the lattice values that bend space
constexpr float kBendSpacing = 11;  // voxels
constexpr float kInfinity = std::numeric_limits<float>::max();

/// The balls that can be first or second (of another tube) for some point within `radius` of `middle`.
std::vector<Ball> candidates(const BallGrid& balls, const Point& middle, float radius) {
  const int largest = balls.largest_reach();
  for (int reach = 2;; reach *= 2) {
    // Upper bounds of the power distance, the least for each tube.
    std::unordered_map<std::int64_t, float> bounds;
    balls.near(middle, reach, [&](const Ball& ball) {
      const float far = distance(ball.centre, middle) + radius;
      const float bound = far * far - ball.radius * ball.radius;
      const auto [entry, is_new] = bounds.try_emplace(ball.tube, bound);
      if (!is_new) entry->second = std::min(entry->second, bound);
    });
    float first = kInfinity;
    float second = kInfinity;
    for (const auto& [tube, bound] : bounds) {
      second = std::min(second, std::max(first, bound));
      first = std::min(first, bound);
    }
    // Balls outside the bins looked at are at least this far from every point.
    const float outside = std::max(0.0F, static_cast<float>(reach) * BallGrid::kBin - radius);
    const bool complete = second < outside * outside - kLargestTubeRadius * kLargestTubeRadius;
    if (!complete && reach < largest) continue;
    std::vector<Ball> result;
    balls.near(middle, reach, [&](const Ball& ball) {
      const float near = std::max(0.0F, distance(ball.centre, middle) - radius);
      if (near * near - ball.radius * ball.radius <= second) result.push_back(ball);
    });
    return result;
  }
}

struct Nearest {
  const Ball* owner;
  float depth;
};

Nearest find_nearest(const std::vector<Ball>& balls, const Point& at) {
  float first = kInfinity;
  float second = kInfinity;
  const Ball* owner = nullptr;
  const Ball* rival = nullptr;
  for (const Ball& ball : balls) {
    const float dz = ball.centre[0] - at[0];
    const float dy = ball.centre[1] - at[1];
    const float dx = ball.centre[2] - at[2];
    const float power = dz * dz + dy * dy + dx * dx - ball.radius * ball.radius;
    if (power < first) {
      if (owner != nullptr && owner->tube != ball.tube) {
        second = first;
        rival = owner;
      }
      first = power;
      owner = &ball;
    } else if (power < second && ball.tube != owner->tube) {
      second = power;
      rival = &ball;
    }
  }
  FLOODTIDE_ASSERT(owner != nullptr);
  // The power distances of two balls differ by 2 |c1 - c2| times the distance from the plane between them.
  if (rival == nullptr) return {owner, kInfinity};
  return {owner, (second - first) / (2 * std::max(1.0F, distance(owner->centre, rival->centre)))};
}

}  // namespace

Cells fill_cells(const BallGrid& balls, const Vec3& shape, std::uint64_t seed) {
  Cells cells{Tensor<std::int64_t, 3>(shape), Tensor<float, 3>(shape)};
  const SmoothNoise bend_z(shape, kBendSpacing, seed, 1);
  const SmoothNoise bend_y(shape, kBendSpacing, seed, 2);
  const SmoothNoise bend_x(shape, kBendSpacing, seed, 3);
  const BlockGrid grid({{0, 0, 0}, shape}, kBlock);
  parallel_for(grid.size(), [&](std::int64_t number) {
    const Box block = grid[number];
    std::vector<Point> bent;
    Point middle{};
    for (std::int64_t z = block.start[0]; z < block.end()[0]; ++z) {
      for (std::int64_t y = block.start[1]; y < block.end()[1]; ++y) {
        for (std::int64_t x = block.start[2]; x < block.end()[2]; ++x) {
          bent.push_back({static_cast<float>(z) + kBend * bend_z(z, y, x), static_cast<float>(y) + kBend * bend_y(z, y, x),
                          static_cast<float>(x) + kBend * bend_x(z, y, x)});
          for (std::size_t axis = 0; axis < 3; ++axis) middle[axis] += bent.back()[axis];
        }
      }
    }
    float radius = 0;
    for (float& mean : middle) mean /= static_cast<float>(bent.size());
    for (const Point& at : bent) radius = std::max(radius, distance(at, middle));
    const std::vector<Ball> near = candidates(balls, middle, radius);
    const Point* at = bent.data();
    for (std::int64_t z = block.start[0]; z < block.end()[0]; ++z) {
      for (std::int64_t y = block.start[1]; y < block.end()[1]; ++y) {
        for (std::int64_t x = block.start[2]; x < block.end()[2]; ++x) {
          const Nearest found = find_nearest(near, *at++);
          cells.labels.view()(z, y, x) = found.owner->tube;
          cells.depth.view()(z, y, x) = found.depth;
        }
      }
    }
  });
  return cells;
}

}  // namespace floodtide::data
