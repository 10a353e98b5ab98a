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

constexpr std::size_t kMoments = 10;                                                   // 1, z, y, x, zz, yy, xx, zy, zx, yx
constexpr std::array<std::array<std::size_t, 2>, 3> kPairs{{{0, 1}, {0, 2}, {1, 2}}};  // of the last three
constexpr float kSmallestVariance = 1e-3F;

/// Convolve rows of `length` values that lie `stride` apart along an axis of `count` rows. There is nothing beyond the ends.
void convolve(const std::vector<float>& weights, const float* in, float* out, std::int64_t count, std::int64_t stride,
              std::int64_t length) {
  const std::int64_t radius = std::ssize(weights) - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    float* to = out + i * stride;
    std::fill(to, to + length, 0.0F);
    for (std::int64_t j = std::max<std::int64_t>(0, i - radius); j <= std::min(count - 1, i + radius); ++j) {
      const float weight = weights[static_cast<std::size_t>(std::abs(i - j))];
      const float* from = in + j * stride;
      for (std::int64_t k = 0; k < length; ++k) to[k] += weight * from[k];
    }
  }
}

/// Weighted sums of 1, the coordinates and their products over an object, around each voxel of its box.
class Moments {
 public:
  Moments(View<const std::int64_t, 3> labels, const Object& object, const std::array<std::vector<float>, 3>& windows)
      : size_(object.box.size), sums_({kMoments, object.box.voxels()}) {
    const auto& [start, size] = object.box;
    std::int64_t flat = 0;
    for_each_voxel(object.box, [&, &start = start](const Vec3& at) {
      if (labels.at(at) == object.label) {
        std::array<float, 3> c{};
        for (std::size_t axis = 0; axis < 3; ++axis) c[axis] = coordinate(axis, at[axis] - start[axis]);
        const std::array<float, kMoments> own{1,           c[0],        c[1],        c[2],        c[0] * c[0],
                                              c[1] * c[1], c[2] * c[2], c[0] * c[1], c[0] * c[2], c[1] * c[2]};
        for (std::size_t m = 0; m < kMoments; ++m) sums_.view()(m, flat) = own[m];
      }
      ++flat;
    });
    std::vector<float> other(static_cast<std::size_t>(object.box.voxels()));
    const std::int64_t plane = size[1] * size[2];
    for (std::size_t m = 0; m < kMoments; ++m) {
      float* sum = &sums_.view()(m, 0);
      convolve(windows[0], sum, other.data(), size[0], plane, plane);
      for (std::int64_t z = 0; z < size[0]; ++z)
        convolve(windows[1], &other[static_cast<std::size_t>(z * plane)], sum + z * plane, size[1], size[2], size[2]);
      for (std::int64_t row = 0; row < size[0] * size[1]; ++row) {
        convolve(windows[2], sum + row * size[2], &other[static_cast<std::size_t>(row * size[2])], size[2], 1, 1);
      }
      std::copy(other.begin(), other.end(), sum);
    }
  }

  /// Return a coordinate as the sums have it: in voxels, from the middle of the box.
  [[nodiscard]] float coordinate(std::size_t axis, std::int64_t in_box) const {
    return static_cast<float>(in_box) - 0.5F * static_cast<float>(size_[axis] - 1);
  }
  [[nodiscard]] float operator()(std::size_t moment, std::int64_t flat) const { return sums_.view()(moment, flat); }

 private:
  Vec3 size_;
  Tensor<float, 2> sums_;  // [moment, voxel of the box]
};

}  // namespace

Tensor<float, 4> shape_descriptors(View<const std::int64_t, 3> labels, const std::array<double, 3>& deviation) {
  std::array<std::vector<float>, 3> windows;
  std::array<float, 3> sigma{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    windows[axis] = gaussian_weights(deviation[axis], 3);
    sigma[axis] = static_cast<float>(deviation[axis]);
  }
  Tensor<float, 4> descriptors({labels.shape(0), labels.shape(1), labels.shape(2), kMoments});
  for (const Object& object : objects_of(labels)) {
    const Moments moments(labels, object, windows);
    std::int64_t flat = -1;
    for_each_voxel(object.box, [&](const Vec3& at) {
      ++flat;
      if (labels.at(at) != object.label) return;
      float* out = &descriptors.view()(at[0], at[1], at[2], 0);
      const float mass = moments(0, flat);
      std::array<float, 3> mean{}, variance{};
      for (std::size_t axis = 0; axis < 3; ++axis) {
        mean[axis] = moments(1 + axis, flat) / mass;
        variance[axis] = std::max(kSmallestVariance, moments(4 + axis, flat) / mass - mean[axis] * mean[axis]);
        const float offset = mean[axis] - moments.coordinate(axis, at[axis] - object.box.start[axis]);
        out[axis] = 0.5F * offset / sigma[axis] + 0.5F;
        out[3 + axis] = variance[axis] / (sigma[axis] * sigma[axis]);
      }
      for (std::size_t pair = 0; pair < 3; ++pair) {
        const auto [a, b] = kPairs[pair];
        const float covariance = moments(7 + pair, flat) / mass - mean[a] * mean[b];
        out[6 + pair] = 0.5F * covariance / std::sqrt(variance[a] * variance[b]) + 0.5F;
      }
      out[9] = mass;
      for (std::size_t channel = 0; channel < kMoments; ++channel) out[channel] = std::clamp(out[channel], 0.0F, 1.0F);
    });
  }
  return descriptors;
}

}  // namespace floodtide::data
