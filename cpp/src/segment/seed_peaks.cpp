// SPDX-License-Identifier: Apache-2.0
#include "segment/seed_peaks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "floodtide/base/parallel.hpp"
#include "segment/filters.hpp"

namespace floodtide::segment {
namespace {

constexpr double kSigma = 49.0 / 6.0;
constexpr double kNoise = 1e-4;
constexpr std::int64_t kSteps = 4;

/// Which voxels are peaks.
struct PeakRule {
  Axes axes;              ///< kVolume, or kPlanes: each plane z is a separate image
  std::int64_t distance;  ///< a peak is the maximum of all voxels within this distance along each axis, in voxels
  double least;           ///< a peak is higher than this, in voxels
  [[nodiscard]] bool planar() const { return axes.front() != 0; }
  [[nodiscard]] std::int64_t distance_z() const { return planar() ? 0 : distance; }
};

/// Return a mask that is 1 where the image has an edge, else 0.
Tensor<std::uint8_t, 3> edges_of(View<const float, 3> image, View<const std::uint8_t, 3> excluded, Axes axes,
                                 const Progress& progress) {
  const Tensor<float, 3> edges = sobel_magnitude(image, axes);
  report(progress, 1, kSteps);
  const Tensor<float, 3> threshold = gaussian_filter(edges.view(), kSigma, axes);
  Tensor<std::uint8_t, 3> mask(image.shape());
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    const bool edge = edges.data()[i] > threshold.data()[i] || (excluded.size() > 0 && excluded.data()[i] != 0);
    mask.data()[i] = edge ? 1 : 0;
  }
  report(progress, 2, kSteps);
  return mask;
}

/// The planes of the distance that the search for peaks needs at a time: distances in float (as in google/ffn), plus
/// numpy.random.RandomState(42).random_sample() * 1e-4 in double. The distance of excluded voxels is -1, and that of a plane
/// without edges is 0. Voxel (z, y, x) is in plane z modulo the number of planes.
class NoisyDistance {
 public:
  NoisyDistance(View<const std::int32_t, 3> squared, View<const std::uint8_t, 3> excluded, const PeakRule& rule)
      : squared_(squared),
        excluded_(excluded),
        planar_(rule.planar()),
        depth_(2 * rule.distance_z() + 1),
        planes_(Shape<3>{depth_, squared.shape(1), squared.shape(2)}) {}

  /// Compute all planes up to `z`, each one once, because the noise is one sequence.
  void compute_up_to(std::int64_t z) {
    for (; next_ <= z; ++next_) compute(next_);
  }

  [[nodiscard]] const double* row(std::int64_t z, std::int64_t y) const { return &planes_.view()(z % depth_, y, 0); }

 private:
  void compute(std::int64_t z) {
    if (planar_) generator_.seed(42);
    const std::int64_t count = squared_.shape(1) * squared_.shape(2);
    const std::int32_t* squared = &squared_(z, 0, 0);
    double* out = &planes_.view()(z % depth_, 0, 0);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto high = static_cast<double>(generator_() >> 5U);
      const auto low = static_cast<double>(generator_() >> 6U);
      const double uniform = (high * 67108864.0 + low) / 9007199254740992.0;  // 27 + 26 = 53 bits
      auto distance = static_cast<float>(std::sqrt(static_cast<double>(std::max(squared[i], 0))));
      if (excluded_.size() > 0 && excluded_.data()[z * count + i] != 0) distance = -1.0F;
      out[i] = static_cast<double>(distance) + uniform * kNoise;
    }
  }

  View<const std::int32_t, 3> squared_;
  View<const std::uint8_t, 3> excluded_;
  bool planar_;
  std::int64_t depth_;  ///< number of planes in memory
  Tensor<double, 3> planes_;
  std::mt19937 generator_{42};
  std::int64_t next_ = 0;
};

bool is_peak(const NoisyDistance& distance, const PeakRule& rule, std::int64_t z, std::int64_t y, std::int64_t x) {
  const double value = distance.row(z, y)[x];
  if (value <= rule.least) return false;
  const double* row = distance.row(z, y);
  for (const std::int64_t side : {-1, 1}) {  // this fast test rejects most voxels
    if (row[x + side] > value || distance.row(z, y + side)[x] > value) return false;
  }
  for (std::int64_t dz = -rule.distance_z(); dz <= rule.distance_z(); ++dz) {
    for (std::int64_t dy = -rule.distance; dy <= rule.distance; ++dy) {
      row = distance.row(z + dz, y + dy) + x;
      for (std::int64_t dx = -rule.distance; dx <= rule.distance; ++dx) {
        if (row[dx] > value) return false;
      }
    }
  }
  return true;
}

std::vector<Vec3> peaks(View<const float, 3> image, View<const std::uint8_t, 3> excluded, const PeakRule& rule,
                        const Progress& progress) {
  const auto [nz, ny, nx] = image.shape();
  const Tensor<std::int32_t, 3> squared = squared_distance(edges_of(image, excluded, rule.axes, progress).view(), rule.axes);
  report(progress, 3, kSteps);
  std::vector<Vec3> seeds;
  if (squared.size() == 0) return seeds;
  NoisyDistance distance(squared.view(), excluded, rule);
  std::vector<std::vector<Vec3>> of_row(static_cast<std::size_t>(ny));
  for (std::int64_t z = rule.distance_z(); z < nz - rule.distance_z(); ++z) {
    if (squared.view()(z, 0, 0) < 0) continue;  // no edges in this plane, or in the volume
    distance.compute_up_to(z + rule.distance_z());
    parallel_for(ny, [&, z, ny = ny, nx = nx](std::int64_t y) {
      auto& found = of_row[static_cast<std::size_t>(y)];
      found.clear();
      if (y < rule.distance || y >= ny - rule.distance) return;
      for (std::int64_t x = rule.distance; x < nx - rule.distance; ++x) {
        if (is_peak(distance, rule, z, y, x)) found.push_back({z, y, x});
      }
    });
    for (const auto& row : of_row) seeds.insert(seeds.end(), row.begin(), row.end());
  }
  report(progress, kSteps, kSteps);
  return seeds;
}

}  // namespace

std::vector<Vec3> peak_seeds(View<const float, 3> image, View<const std::uint8_t, 3> excluded, const ParameterValues&,
                             const Progress& progress) {
  return peaks(image, excluded, {kVolume, 3, 0.0}, progress);
}

std::vector<Vec3> planar_peak_seeds(View<const float, 3> image, View<const std::uint8_t, 3> excluded,
                                    const ParameterValues& values, const Progress& progress) {
  const auto distance = static_cast<std::int64_t>(number(values, "peaks2d_min_distance"));
  return peaks(image, excluded, {kPlanes, distance, number(values, "peaks2d_threshold_abs")}, progress);
}

}  // namespace floodtide::segment
