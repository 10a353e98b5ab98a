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

  void add(const Ball& ball);
  /// Calls visit(ball) for every ball whose bin lies within `reach` bins of the point's.
  template <class Visit>
  void near(const Point& point, int reach, const Visit& visit) const {
    const Vec3 middle = bin(point);
    for (std::int64_t z = low(middle[0] - reach); z <= high(middle[0] + reach, 0); ++z) {
      for (std::int64_t y = low(middle[1] - reach); y <= high(middle[1] + reach, 1); ++y) {
        for (std::int64_t x = low(middle[2] - reach); x <= high(middle[2] + reach, 2); ++x) {
          for (const Ball& ball : bins_[static_cast<std::size_t>((z * counts_[1] + y) * counts_[2] + x)]) visit(ball);
        }
      }
    }
  }
  [[nodiscard]] bool contains(const Point& point) const;
  /// Return the reach that covers all bins.
  [[nodiscard]] int largest_reach() const;

  static constexpr float kBin = 12;

 private:
  [[nodiscard]] Vec3 bin(const Point& point) const;
  [[nodiscard]] static std::int64_t low(std::int64_t index) { return index < 0 ? 0 : index; }
  [[nodiscard]] std::int64_t high(std::int64_t index, std::size_t axis) const {
    return index >= counts_[axis] ? counts_[axis] - 1 : index;
  }

  Vec3 shape_;
  float margin_;
  Vec3 counts_{};
  std::vector<std::vector<Ball>> bins_;
};

/// Fill the volume with tubes. Each tube begins in the largest void that was found, and grows in both directions along a random
/// walk that avoids earlier tubes. It may branch. Return all balls; out_tubes is the number of tubes.
[[nodiscard]] BallGrid grow_tubes(const Vec3& shape, std::uint64_t seed, std::int64_t& out_tubes);

}  // namespace floodtide::data
