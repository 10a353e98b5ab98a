// SPDX-License-Identifier: Apache-2.0
#include "segment/seed_peaks.hpp"

#include <cmath>
#include <cstdint>
#include <random>

#include "floodtide/base/parallel.hpp"
#include "segment/filters.hpp"

namespace floodtide::segment {
namespace {

constexpr double kSigma = 49.0 / 6.0;
constexpr std::int64_t kMinDistance = 3;
constexpr double kNoise = 1e-4;
constexpr std::int64_t kSteps = 4;

/// Return a mask that is 1 where the image has an edge, else 0.
Tensor<std::uint8_t, 3> edges_of(View<const float, 3> image, View<const std::uint8_t, 3> excluded, const Progress& progress) {
  const Tensor<float, 3> edges = sobel_magnitude(image);
  report(progress, 1, kSteps);
  const Tensor<float, 3> threshold = gaussian_filter(edges.view(), kSigma);
  Tensor<std::uint8_t, 3> mask(image.shape());
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    const bool edge = edges.data()[i] > threshold.data()[i] || (excluded.size() > 0 && excluded.data()[i] != 0);
    mask.data()[i] = edge ? 1 : 0;
  }
  report(progress, 2, kSteps);
  return mask;
}

/// Return distances plus noise: distances in float (as in google/ffn), plus numpy.random.RandomState(42).random_sample() * 1e-4
/// in double. The distance of excluded voxels is -1.
Tensor<double, 3> noisy_distance(View<const std::int32_t, 3> squared, View<const std::uint8_t, 3> excluded) {
  Tensor<double, 3> out(squared.shape());
  std::mt19937 generator(42);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const auto high = static_cast<double>(generator() >> 5U);
    const auto low = static_cast<double>(generator() >> 6U);
    const double uniform = (high * 67108864.0 + low) / 9007199254740992.0;  // 27 + 26 = 53 bits
    auto distance = static_cast<float>(std::sqrt(static_cast<double>(squared.data()[i])));
    if (excluded.size() > 0 && excluded.data()[i] != 0) distance = -1.0F;
    out.data()[i] = static_cast<double>(distance) + uniform * kNoise;
  }
  return out;
}

/// True if the voxel is positive, and no voxel within kMinDistance along each axis is higher.
bool is_peak(View<const double, 3> image, std::int64_t z, std::int64_t y, std::int64_t x) {
  const double value = image(z, y, x);
  for (const std::int64_t side : {-1, 1}) {  // this fast test rejects most voxels
    if (image(z + side, y, x) > value || image(z, y + side, x) > value || image(z, y, x + side) > value) return false;
  }
  for (std::int64_t dz = -kMinDistance; dz <= kMinDistance; ++dz) {
    for (std::int64_t dy = -kMinDistance; dy <= kMinDistance; ++dy) {
      const double* row = &image(z + dz, y + dy, x);
      for (std::int64_t dx = -kMinDistance; dx <= kMinDistance; ++dx) {
        if (row[dx] > value) return false;
      }
    }
  }
  return value > 0.0;
}

}  // namespace

std::vector<Vec3> peak_seeds(View<const float, 3> image, View<const std::uint8_t, 3> excluded, const ParameterValues&,
                             const Progress& progress) {
  const auto [nz, ny, nx] = image.shape();
  Tensor<double, 3> distance;
  {
    const Tensor<std::int32_t, 3> squared = squared_distance(edges_of(image, excluded, progress).view());
    if (squared.size() == 0 || squared.data()[0] < 0) return {};
    distance = noisy_distance(squared.view(), excluded);
  }
  report(progress, 3, kSteps);
  std::vector<std::vector<Vec3>> of_plane(static_cast<std::size_t>(nz));
  const View<const double, 3> view = std::as_const(distance).view();
  parallel_for(nz, [&, nz = nz, ny = ny, nx = nx](std::int64_t z) {
    if (z < kMinDistance || z >= nz - kMinDistance) return;
    for (std::int64_t y = kMinDistance; y < ny - kMinDistance; ++y) {
      for (std::int64_t x = kMinDistance; x < nx - kMinDistance; ++x) {
        if (is_peak(view, z, y, x)) of_plane[static_cast<std::size_t>(z)].push_back({z, y, x});
      }
    }
  });
  std::vector<Vec3> seeds;
  for (const auto& plane : of_plane) seeds.insert(seeds.end(), plane.begin(), plane.end());
  report(progress, kSteps, kSteps);
  return seeds;
}

}  // namespace floodtide::segment
