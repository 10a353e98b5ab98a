// SPDX-License-Identifier: Apache-2.0
// Geometry of synthetic volumes: processes ("tubes") as chains of balls.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "floodtide/tensor/box.hpp"

namespace floodtide::data {

using Point = std::array<float, 3>;  ///< z, y, x in voxels

[[nodiscard]] float distance(const Point& a, const Point& b);

inline constexpr float kLargestTubeRadius = 11;  ///< voxels

struct Ball {
  Point centre;
  float radius;
  std::int64_t tube;   ///< id from 1 on
  std::int64_t order;  ///< number of balls that were made before
};

/// Balls in a grid of cubic bins, which finds the balls near a point.
class BallGrid {
 public:
  BallGrid(const Vec3& shape, float margin);

  void add(const Ball& ball) { bins_[index(bin(ball.centre))].push_back(ball); }
  /// Calls visit(ball) for every ball whose bin lies within `reach` bins of the point's.
  template <class Visit>
  void near(const Point& point, int reach, const Visit& visit) const {
    const std::int64_t width = 2 * reach + 1;
    for_each_voxel(intersection(centred_box(bin(point), {width, width, width}), {{}, counts_}), [&](const Vec3& at) {
      for (const Ball& ball : bins_[index(at)]) visit(ball);
    });
  }
  [[nodiscard]] bool contains(const Point& point) const;
  /// Return the reach that covers all bins.
  [[nodiscard]] int largest_reach() const;

  static constexpr float kBin = 12;

 private:
  [[nodiscard]] Vec3 bin(const Point& point) const;
  [[nodiscard]] std::size_t index(const Vec3& bin) const {
    return static_cast<std::size_t>((bin[0] * counts_[1] + bin[1]) * counts_[2] + bin[2]);
  }

  Vec3 shape_;
  float margin_;
  Vec3 counts_{};
  std::vector<std::vector<Ball>> bins_;
};

/// Fill the volume with tubes. Each tube begins in the largest void that was found, and grows in both directions along a random
/// walk that avoids earlier tubes. It may branch. Return all balls.
[[nodiscard]] BallGrid grow_tubes(const Vec3& shape, std::uint64_t seed);

}  // namespace floodtide::data
