// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "data/distance.hpp"
#include "floodtide/base/parallel.hpp"
#include "segment/filters.hpp"
#include "segment/seed_policies.hpp"

namespace floodtide::segment {
namespace {

constexpr double kSigma = 49.0 / 6.0;
constexpr double kNoise = 1e-4;
constexpr std::int64_t kSteps = 4;
constexpr std::uint8_t kMasks = kClosedToMoves | kClosedToSeeds;

/// Which voxels are peaks.
struct PeakRule {
  Axes axes;              ///< kVolume, or kPlanes: each plane z is a separate image
  std::int64_t distance;  ///< a peak is the maximum of all voxels within this distance along each axis, in voxels
  double least;           ///< a peak is higher than this, in voxels
  [[nodiscard]] bool planar() const { return axes.front() != 0; }
  [[nodiscard]] std::int64_t distance_z() const { return planar() ? 0 : distance; }
};

/// Return a mask that is 1 where the image has an edge or a bit of `closing` is set, else 0.
Tensor<std::uint8_t, 3> edges_of(const SeedSearch& search, std::uint8_t closing, Axes axes) {
  const Tensor<float, 3> edges = sobel_magnitude(search.image, axes);
  report(search.progress, 1, kSteps);
  const Tensor<float, 3> threshold = gaussian_filter(edges.view(), kSigma, axes);
  Tensor<std::uint8_t, 3> mask(search.image.shape());
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    mask.data()[i] = edges.data()[i] > threshold.data()[i] || (search.bits(i) & closing) != 0 ? 1 : 0;
  }
  report(search.progress, 2, kSteps);
  return mask;
}

/// The planes that the search for peaks needs at a time: values in float (as in google/ffn), plus
/// numpy.random.RandomState(42).random_sample() * 1e-4 in double. Voxel (z, y, x) is in plane z modulo the number of planes.
/// Value is called with the place of a voxel in row-major order.
template <class Value>
class NoisyPlanes {
 public:
  NoisyPlanes(const Shape<3>& shape, const PeakRule& rule, const Value& value)
      : value_(value),
        count_(shape[1] * shape[2]),
        planar_(rule.planar()),
        depth_(2 * rule.distance_z() + 1),
        planes_(Shape<3>{depth_, shape[1], shape[2]}) {}

  /// Compute all planes up to `z`, each one once, because the noise is one sequence.
  void compute_up_to(std::int64_t z) {
    for (; next_ <= z; ++next_) compute(next_);
  }

  [[nodiscard]] const double* row(std::int64_t z, std::int64_t y) const { return &planes_.view()(z % depth_, y, 0); }

 private:
  void compute(std::int64_t z) {
    if (planar_) generator_.seed(42);
    double* out = &planes_.view()(z % depth_, 0, 0);
    for (std::int64_t i = 0; i < count_; ++i) {
      const auto high = static_cast<double>(generator_() >> 5U);
      const auto low = static_cast<double>(generator_() >> 6U);
      const double uniform = (high * 67108864.0 + low) / 9007199254740992.0;  // 27 + 26 = 53 bits
      out[i] = static_cast<double>(value_(z * count_ + i)) + uniform * kNoise;
    }
  }

  const Value& value_;
  std::int64_t count_;  ///< voxels of a plane
  bool planar_;
  std::int64_t depth_;  ///< number of planes in memory
  Tensor<double, 3> planes_;
  std::mt19937 generator_{42};
  std::int64_t next_ = 0;
};

template <class Value>
bool is_peak(const NoisyPlanes<Value>& planes, const PeakRule& rule, std::int64_t z, std::int64_t y, std::int64_t x) {
  const double value = planes.row(z, y)[x];
  if (value <= rule.least) return false;
  const double* row = planes.row(z, y);
  for (const std::int64_t side : {-1, 1}) {  // this fast test rejects most voxels
    if (row[x + side] > value || planes.row(z, y + side)[x] > value) return false;
  }
  for (std::int64_t dz = -rule.distance_z(); dz <= rule.distance_z(); ++dz) {
    for (std::int64_t dy = -rule.distance; dy <= rule.distance; ++dy) {
      row = planes.row(z + dz, y + dy) + x;
      for (std::int64_t dx = -rule.distance; dx <= rule.distance; ++dx) {
        if (row[dx] > value) return false;
      }
    }
  }
  return true;
}

/// Return the peaks of a volume of values, ordered by z, y, x. `has_peaks(z)` is false for planes without peaks.
template <class Value, class HasPeaks>
std::vector<Vec3> peaks(const Shape<3>& shape, const PeakRule& rule, const Value& value, const HasPeaks& has_peaks) {
  const auto [nz, ny, nx] = shape;
  std::vector<Vec3> seeds;
  if (nz * ny * nx == 0) return seeds;
  NoisyPlanes<Value> planes(shape, rule, value);
  std::vector<std::vector<Vec3>> of_row(static_cast<std::size_t>(ny));
  for (std::int64_t z = rule.distance_z(); z < nz - rule.distance_z(); ++z) {
    if (!has_peaks(z)) continue;
    planes.compute_up_to(z + rule.distance_z());
    parallel_for(ny, [&, z, ny = ny, nx = nx](std::int64_t y) {
      auto& found = of_row[static_cast<std::size_t>(y)];
      found.clear();
      if (y < rule.distance || y >= ny - rule.distance) return;
      for (std::int64_t x = rule.distance; x < nx - rule.distance; ++x) {
        if (is_peak(planes, rule, z, y, x)) found.push_back({z, y, x});
      }
    });
    for (const auto& row : of_row) seeds.insert(seeds.end(), row.begin(), row.end());
  }
  return seeds;
}

/// Return the peaks of the distance to the nearest voxel with mask != 0. The distance is -1 where a bit of `closing` is set.
/// A volume, or with kPlanes a plane, without such a voxel has no peaks.
std::vector<Vec3> distance_peaks(const SeedSearch& search, const Tensor<std::uint8_t, 3>& mask, std::uint8_t closing,
                                 const PeakRule& rule) {
  const Tensor<std::int32_t, 3> squared = data::squared_distance(mask.view(), rule.axes.front() != 0);
  report(search.progress, 3, kSteps);
  const std::int32_t* values = squared.data();
  const auto distance = [&search, closing, values](std::int64_t voxel) {
    if ((search.bits(voxel) & closing) != 0) return -1.0F;
    return static_cast<float>(std::sqrt(static_cast<double>(std::max(values[voxel], 0))));
  };
  const auto has_mask = [&squared](std::int64_t z) { return squared.view()(z, 0, 0) >= 0; };
  std::vector<Vec3> seeds = peaks(mask.shape(), rule, distance, has_mask);
  report(search.progress, kSteps, kSteps);
  return seeds;
}

}  // namespace

std::vector<Vec3> peak_seeds(const SeedSearch& search) {
  const Tensor<std::uint8_t, 3> edges = edges_of(search, kMasks, kVolume);
  if (std::ranges::all_of(edges.span(), [](std::uint8_t edge) { return edge != 0; })) return {};
  return distance_peaks(search, edges, kMasks | kClosedBySegment, {kVolume, 3, 0.0});
}

std::vector<Vec3> planar_peak_seeds(const SeedSearch& search) {
  const auto distance = static_cast<std::int64_t>(number(search.values, "peaks2d_min_distance"));
  const PeakRule rule{kPlanes, distance, number(search.values, "peaks2d_threshold_abs")};
  return distance_peaks(search, edges_of(search, kClosedToMoves, kPlanes), kClosedToMoves, rule);
}

std::vector<Vec3> intensity_peak_seeds(const SeedSearch& search) {
  const auto intensity = [&search](std::int64_t voxel) {
    return (search.bits(voxel) & (kMasks | kClosedBySegment)) != 0 ? 0.0F : search.image.data()[voxel];
  };
  std::vector<Vec3> seeds = peaks(search.image.shape(), {kVolume, 3, 0.0}, intensity, [](std::int64_t) { return true; });
  report(search.progress, kSteps, kSteps);
  return seeds;
}

std::vector<Vec3> empty_space_seeds(const SeedSearch& search) {
  Tensor<std::uint8_t, 3> segments(search.image.shape());
  for (std::int64_t i = 0; i < segments.size(); ++i) segments.data()[i] = search.bits(i) & kClosedBySegment;
  return distance_peaks(search, segments, 0, {kVolume, 2, 0.5});
}

}  // namespace floodtide::segment
