// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "data/objects.hpp"
#include "floodtide/data/intensity.hpp"
#include "floodtide/data/targets.hpp"

namespace floodtide::data {
namespace {

constexpr std::size_t kMoments = 10;
using Powers = std::array<std::size_t, 3>;  // of the distances (z, y, x)
constexpr std::array<Powers, kMoments> kPowers{
    {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {2, 0, 0}, {0, 2, 0}, {0, 0, 2}, {1, 1, 0}, {1, 0, 1}, {0, 1, 1}}};
constexpr std::array<std::array<std::size_t, 2>, 3> kPairs{{{0, 1}, {0, 2}, {1, 2}}};  // of the last three
constexpr float kSmallestVariance = 1e-3F;

/// The window along an axis, times the distance to the power 0, 1 and 2, for distances from -radius to radius.
using Windows = std::array<std::vector<float>, 3>;

Windows windows_of(double deviation) {
  const std::vector<float> weights = gaussian_weights(deviation, 3);
  const std::int64_t radius = std::ssize(weights) - 1;
  Windows windows;
  for (std::int64_t distance = -radius; distance <= radius; ++distance) {
    float value = weights[static_cast<std::size_t>(std::abs(distance))];
    for (std::vector<float>& window : windows) {
      window.push_back(value);
      value *= static_cast<float>(distance);
    }
  }
  return windows;
}

/// Sum rows of `length` values in the window around each of the rows first to first + count. There is nothing beyond the rows
/// of `in`.
void sum_rows(const std::vector<float>& window, const float* in, std::int64_t rows, std::int64_t first, std::int64_t count,
              std::int64_t length, float* out) {
  std::fill_n(out, count * length, 0.0F);
  const std::int64_t radius = std::ssize(window) / 2;
  for (std::int64_t at = first - radius; at <= first + radius; ++at) {
    const float weight = window[static_cast<std::size_t>(at - first + radius)];
    const std::int64_t end = std::min(count, rows - at) * length;
    for (std::int64_t i = std::max<std::int64_t>(0, -at) * length; i < end; ++i) out[i] += weight * in[at * length + i];
  }
}

/// Weighted sums of products of distances over the voxels of an object, in the window around each voxel of `part`. Returns
/// [moment, voxel].
Tensor<float, 2> moments_of(View<const std::int64_t, 3> labels, const Object& object, const Box& part,
                            const std::array<Windows, 3>& windows) {
  const auto [first_z, first_y, first_x] = part.start - object.box.start;
  const auto [depth, height, width] = part.size;
  const auto [planes, rows, columns] = object.box.size;
  std::vector<float> inside, by_x(static_cast<std::size_t>(planes * rows * width));
  std::vector<float> by_y(static_cast<std::size_t>(planes * height * width));
  for_each_voxel(object.box, [&](const Vec3& at) { inside.push_back(labels.at(at) == object.label ? 1.0F : 0.0F); });
  Tensor<float, 2> sums({kMoments, part.voxels()});
  for (std::size_t x = 0; x < 3; ++x) {
    for (std::int64_t row = 0; row < planes * rows; ++row) {
      const float* const from = &inside[static_cast<std::size_t>(row * columns)];
      const bool empty = std::find(from, from + columns, 1.0F) == from + columns;
      sum_rows(windows[2][x], from, empty ? 0 : columns, first_x, width, 1, &by_x[static_cast<std::size_t>(row * width)]);
    }
    for (std::size_t y = 0; x + y < 3; ++y) {
      for (std::int64_t plane = 0; plane < planes; ++plane) {
        sum_rows(windows[1][y], &by_x[static_cast<std::size_t>(plane * rows * width)], rows, first_y, height, width,
                 &by_y[static_cast<std::size_t>(plane * height * width)]);
      }
      for (std::size_t z = 0; x + y + z < 3; ++z) {
        const auto moment = std::ranges::find(kPowers, Powers{z, y, x}) - kPowers.begin();
        sum_rows(windows[0][z], by_y.data(), planes, first_z, depth, height * width, &sums.view()(moment, 0));
      }
    }
  }
  return sums;
}

}  // namespace

Tensor<float, 4> shape_descriptors(View<const std::int64_t, 3> labels, const Box& part,
                                   const std::array<double, 3>& deviation) {
  std::array<Windows, 3> windows;
  std::array<float, 3> sigma{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    windows[axis] = windows_of(deviation[axis]);
    sigma[axis] = static_cast<float>(deviation[axis]);
  }
  Tensor<float, 4> descriptors({part.size[0], part.size[1], part.size[2], kMoments});
  for (const Object& object : objects_of(labels)) {
    Extent extent;
    for_each_voxel(intersection(object.box, part), [&](const Vec3& at) {
      if (labels.at(at) == object.label) extent.add(at, at);
    });
    if (extent.empty()) continue;
    const Box described = extent.box();
    const Tensor<float, 2> moments = moments_of(labels, object, described, windows);
    std::int64_t flat = -1;
    for_each_voxel(described, [&](const Vec3& at) {
      ++flat;
      if (labels.at(at) != object.label) return;
      const auto moment = [&](std::size_t m) { return moments.view()(m, flat); };
      const Vec3 to = at - part.start;
      float* out = &descriptors.view()(to[0], to[1], to[2], 0);
      const float mass = moment(0);
      std::array<float, 3> mean{}, variance{};
      for (std::size_t axis = 0; axis < 3; ++axis) {
        mean[axis] = moment(1 + axis) / mass;
        variance[axis] = std::max(kSmallestVariance, moment(4 + axis) / mass - mean[axis] * mean[axis]);
        out[axis] = 0.5F * mean[axis] / sigma[axis] + 0.5F;
        out[3 + axis] = variance[axis] / (sigma[axis] * sigma[axis]);
      }
      for (std::size_t pair = 0; pair < 3; ++pair) {
        const auto [a, b] = kPairs[pair];
        const float covariance = moment(7 + pair) / mass - mean[a] * mean[b];
        out[6 + pair] = 0.5F * covariance / std::sqrt(variance[a] * variance[b]) + 0.5F;
      }
      out[9] = mass;
      for (std::size_t channel = 0; channel < kMoments; ++channel) out[channel] = std::clamp(out[channel], 0.0F, 1.0F);
    });
  }
  return descriptors;
}

}  // namespace floodtide::data
