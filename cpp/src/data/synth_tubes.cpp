// SPDX-License-Identifier: Apache-2.0
#include "data/synth_tubes.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include "data/purposes.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::data {
namespace {

// Lengths in voxels. Chosen so that cells are 10 to 40 voxels across, as neurites at 10 nm a voxel are.
constexpr float kMargin = 16;         // tubes begin and end outside the volume
constexpr float kStep = 2;            // between balls of a tube
constexpr float kSmallestRadius = 6;  // of a target; narrow places may be kNarrowest
constexpr float kNarrowest = 4.5F;
constexpr int kLongest = 150;         // steps of one branch
constexpr int kMostBranches = 3;      // of one tube, beside the two ends
constexpr std::int64_t kRecent = 20;  // a tube need not keep clear of its own last balls,
constexpr float kRoot = 36;           // nor near where the branch began (voxels)
constexpr double kBranching = 0.01;   // chance at each step
constexpr int kReach = 3;             // bins looked at; further than any ball matters

struct TubeEnd {
  Point at;
  Point direction;
  float target_radius;
};

Point normalised(const Point& v) {
  const float length = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
  return {v[0] / length, v[1] / length, v[2] / length};
}

class Grower {
 public:
  Grower(const Vec3& shape, std::uint64_t seed)
      : shape_(shape), random_(seed, stream_id(kSynthPurpose, 0)), grid_(shape, kMargin) {}

  BallGrid run() {
    // A void that takes no ball of the narrowest kind is too small to be a cell of its own.
    constexpr int kCandidates = 60;
    constexpr int kPatience = 6;
    std::int64_t tube = 0;
    for (int failures = 0; failures < kPatience;) {
      Point best{};
      float clear = -1;
      for (int i = 0; i < kCandidates; ++i) {
        const Point candidate = random_point();
        const float c = clearance(candidate, 0, candidate);
        if (c > clear) {
          clear = c;
          best = candidate;
        }
      }
      if (clear < kSmallestRadius) {
        ++failures;
        continue;
      }
      grow(best, clear, ++tube);
    }
    return std::move(grid_);
  }

 private:
  float uniform() { return static_cast<float>(random_.uniform()); }
  float normal() { return static_cast<float>(random_.normal()); }

  Point random_point() {
    Point point;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      point[axis] = (static_cast<float>(shape_[axis]) + kMargin) * uniform() - kMargin / 2;
    }
    return point;
  }

  Point random_direction() { return normalised({normal(), normal(), normal()}); }

  /// Distance to the nearest ball that a branch of `own_tube` begun at `root` has to keep clear of, at most the reach.
  [[nodiscard]] float clearance(const Point& point, std::int64_t own_tube, const Point& root) const {
    float result = kReach * BallGrid::kBin;
    grid_.near(point, kReach, [&](const Ball& ball) {
      if (ball.tube == own_tube && (ball.order + kRecent >= balls_ || distance(ball.centre, root) < kRoot)) return;
      result = std::min(result, distance(ball.centre, point) - ball.radius);
    });
    return result;
  }

  void add(const Point& at, float radius, std::int64_t tube) { grid_.add({at, radius, tube, balls_++}); }

  void grow(const Point& start, float clear, std::int64_t tube) {
    // Log-uniform: as many thin processes as thick ones.
    const float drawn = kSmallestRadius * std::pow(kLargestTubeRadius / kSmallestRadius, uniform());
    const float radius = std::min(drawn, clear);
    const Point direction = random_direction();
    add(start, radius, tube);
    branches_ = 0;
    std::deque<TubeEnd> heads{{start, direction, drawn}, {start, {-direction[0], -direction[1], -direction[2]}, drawn}};
    while (!heads.empty()) {
      const TubeEnd head = heads.front();
      heads.pop_front();
      extend(head, tube, heads);
    }
  }

  void extend(TubeEnd head, std::int64_t tube, std::deque<TubeEnd>& heads) {
    const Point root = head.at;
    float swelling = 0;  // log of radius over target, wandering
    for (int step = 0; step < kLongest; ++step) {
      swelling = 0.9F * swelling + 0.12F * normal();
      const float wanted = std::clamp(head.target_radius * std::exp(swelling), kSmallestRadius, kLargestTubeRadius);
      Point best{};
      Point best_direction{};
      float clear = -std::numeric_limits<float>::max();
      for (int attempt = 0; attempt < 7 && clear < wanted; ++attempt) {
        const float spread = attempt == 0 ? 0.12F : 0.25F + 0.06F * static_cast<float>(attempt);
        Point direction;
        for (std::size_t axis = 0; axis < 3; ++axis) direction[axis] = head.direction[axis] + spread * normal();
        direction = normalised(direction);
        const Point at{head.at[0] + kStep * direction[0], head.at[1] + kStep * direction[1], head.at[2] + kStep * direction[2]};
        const float c = clearance(at, tube, root);
        if (c > clear) {
          clear = c;
          best = at;
          best_direction = direction;
        }
      }
      if (clear < kNarrowest || !grid_.contains(best)) return;
      add(best, std::min(wanted, clear), tube);
      head.at = best;
      head.direction = best_direction;
      if (step > 8 && random_.uniform() < kBranching && branches_ < kMostBranches) {
        ++branches_;
        const Point away = random_direction();
        Point direction;
        for (std::size_t axis = 0; axis < 3; ++axis) direction[axis] = 0.5F * head.direction[axis] + away[axis];
        heads.push_back({head.at, normalised(direction), std::max(kSmallestRadius, 0.7F * head.target_radius)});
      }
    }
  }

  Vec3 shape_;
  Philox random_;
  BallGrid grid_;
  std::int64_t balls_ = 0;
  int branches_ = 0;  // of the tube being grown
};

}  // namespace

float distance(const Point& a, const Point& b) {
  const float z = a[0] - b[0];
  const float y = a[1] - b[1];
  const float x = a[2] - b[2];
  return std::sqrt(z * z + y * y + x * x);
}

BallGrid::BallGrid(const Vec3& shape, float margin) : shape_(shape), margin_(margin) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    counts_[axis] = static_cast<std::int64_t>((static_cast<float>(shape[axis]) + 2 * margin) / kBin) + 1;
  }
  bins_.resize(static_cast<std::size_t>(volume<3>(counts_)));
}

Vec3 BallGrid::bin(const Point& point) const {
  return by_axis([&](std::size_t axis) {
    const auto index = static_cast<std::int64_t>(std::floor((point[axis] + margin_) / kBin));
    return std::clamp<std::int64_t>(index, 0, counts_[axis] - 1);
  });
}

bool BallGrid::contains(const Point& point) const {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (point[axis] < -margin_ || point[axis] > static_cast<float>(shape_[axis]) + margin_) return false;
  }
  return true;
}

int BallGrid::largest_reach() const { return static_cast<int>(*std::max_element(counts_.begin(), counts_.end())); }

BallGrid grow_tubes(const Vec3& shape, std::uint64_t seed) { return Grower(shape, seed).run(); }

}  // namespace floodtide::data
