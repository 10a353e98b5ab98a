// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/decision_points.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "data/distance.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::segment {
namespace {

/// Labels grown into the empty space, and the distance of each voxel to the nearest segment before.
struct Grown {
  Tensor<std::uint64_t, 3> labels;
  Tensor<double, 3> distance;
};

/// Empty voxel next to a labelled one. Voxels are labelled in the order of their distance, then of their discovery.
struct Front {
  double distance;
  std::int64_t age;
  Vec3 voxel;
  bool operator>(const Front& other) const noexcept { return std::tie(distance, age) > std::tie(other.distance, other.age); }
};

constexpr std::array<Vec3, 6> kFaces{{{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}}};

Grown grown(View<const std::uint64_t, 3> labels, const std::array<double, 3>& voxel_size, double max_distance) {
  Tensor<std::uint8_t, 3> segmented(labels.shape());
  Grown out{Tensor<std::uint64_t, 3>(labels.shape()), {}};
  for (std::int64_t i = 0; i < labels.size(); ++i) {
    out.labels.data()[i] = labels.data()[i];
    segmented.data()[i] = labels.data()[i] != 0 ? 1 : 0;
  }
  out.distance = data::squared_distance(segmented.view(), voxel_size);
  for (double& value : out.distance.span()) value = std::sqrt(value);

  std::priority_queue<Front, std::vector<Front>, std::greater<>> fronts;
  const Box whole{{}, labels.shape()};
  std::int64_t age = 0;
  const auto spread = [&](const Vec3& from) {
    for (const Vec3& step : kFaces) {
      const Vec3 next = from + step;
      if (!whole.contains(next) || out.labels.view().at(next) != 0 || out.distance.view().at(next) > max_distance) continue;
      out.labels.view().at(next) = out.labels.view().at(from);
      fronts.push({out.distance.view().at(next), age++, next});
    }
  };
  for_each_voxel(whole, [&](const Vec3& voxel) {
    if (labels.at(voxel) != 0) spread(voxel);
  });
  while (!fronts.empty()) {
    const Vec3 voxel = fronts.top().voxel;
    fronts.pop();
    spread(voxel);
  }
  return out;
}

/// Places with the smallest distance at which two segments touch.
struct Contact {
  double distance;
  std::vector<Vec3> places;
};

/// Return the place nearest to the centroid of all. The first of several.
Vec3 central(const std::vector<Vec3>& places) {
  std::array<double, 3> centroid{};
  for (const Vec3& place : places) {
    for (std::size_t axis = 0; axis < 3; ++axis) centroid[axis] += static_cast<double>(place[axis]);
  }
  for (double& value : centroid) value /= static_cast<double>(places.size());
  const auto away = [&](const Vec3& place) {
    double squared = 0.0;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const double difference = static_cast<double>(place[axis]) - centroid[axis];
      squared += difference * difference;
    }
    return squared;
  };
  return *std::ranges::min_element(places, {}, away);
}

}  // namespace

std::vector<DecisionPoint> decision_points(View<const std::uint64_t, 3> labels, const std::array<double, 3>& voxel_size,
                                           double max_distance, const Box& within) {
  const Box whole{{}, labels.shape()};
  FLOODTIDE_REQUIRE(whole.contains(within), out_of_range, "decision points: box from ", Show{within.start}, " of ",
                    Show{within.size}, " voxels, expected one inside ", Show{labels.shape()});
  for (const double edge : voxel_size) {
    FLOODTIDE_REQUIRE(edge > 0.0, invalid_argument, "decision points: a voxel has an edge of ", edge, ", expected more than 0");
  }
  const Grown all = grown(labels, voxel_size, max_distance);
  std::map<std::pair<std::uint64_t, std::uint64_t>, Contact> contacts;
  for (int neighbour = 1; neighbour < 8; ++neighbour) {
    const Vec3 step{neighbour >> 2 & 1, neighbour >> 1 & 1, neighbour & 1};
    for_each_voxel(within, [&](const Vec3& here) {
      const Vec3 there = here + step;
      if (!whole.contains(there)) return;
      const std::uint64_t a = all.labels.view().at(here), b = all.labels.view().at(there);
      if (a == 0 || b == 0 || a == b) return;
      const double distance = (all.distance.view().at(here) + all.distance.view().at(there)) / 2;
      const auto [found, is_new] = contacts.try_emplace(std::minmax(a, b), Contact{distance, {}});
      Contact& contact = found->second;
      if (distance > contact.distance) return;
      if (distance < contact.distance) contact = {distance, {}};
      contact.places.push_back(here);
    });
  }

  std::vector<DecisionPoint> points;
  for (const auto& [pair, contact] : contacts) {
    points.push_back({pair.first, pair.second, central(contact.places), contact.distance});
  }
  return points;
}

}  // namespace floodtide::segment
