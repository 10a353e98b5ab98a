// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "floodtide/tensor/box.hpp"
#include "segment/seed_policies.hpp"

namespace floodtide::segment {
namespace {

/// Which voxels of a volume, or of each plane z, are peaks.
struct Rule {
  std::vector<Vec3> footprint;  ///< a peak is the maximum of the voxels at these offsets, without the offset 0
  Vec3 border;                  ///< voxels at the faces that are no peaks
  Vec3 reach;                   ///< a peak rejects others within this distance along each axis
  std::int64_t squared;         ///< and nearer than the root of this; 0: nearer than `reach` along every axis
};

std::vector<Vec3> cube(const Vec3& radius) {
  std::vector<Vec3> offsets;
  for_each_voxel(Box{{}, {1, 1, 1}}.grown(radius), [&](const Vec3& offset) {
    if (offset != Vec3{}) offsets.push_back(offset);
  });
  return offsets;
}
std::vector<Vec3> disk(std::int64_t radius) {
  std::vector<Vec3> offsets = cube({0, radius, radius});
  std::erase_if(offsets, [radius](const Vec3& o) { return o[1] * o[1] + o[2] * o[2] > radius * radius; });
  return offsets;
}

/// A part of an image: the planes from `first` to before `last`.
struct Planes {
  View<const float, 3> image;
  std::int64_t first;
  std::int64_t last;

  [[nodiscard]] Box box() const { return {{first, 0, 0}, {last - first, image.shape(1), image.shape(2)}}; }
  [[nodiscard]] std::span<const float> values() const {
    const std::int64_t plane = image.shape(1) * image.shape(2);
    return {image.data() + first * plane, static_cast<std::size_t>((last - first) * plane)};
  }
};

bool is_maximum(const Planes& planes, const Rule& rule, const Vec3& voxel) {
  const float value = planes.image.at(voxel);
  return std::ranges::none_of(rule.footprint, [&](const Vec3& offset) {
    Vec3 other = voxel + offset;
    other[0] = std::clamp(other[0], planes.first, planes.last - 1);
    for (const std::size_t axis : {1, 2}) other[axis] = std::clamp<std::int64_t>(other[axis], 0, planes.image.shape(axis) - 1);
    return planes.image.at(other) > value;
  });
}

/// Return the peaks above `least`, the brightest first.
std::vector<Vec3> peaks_of(const Planes& planes, const Rule& rule, float least) {
  std::vector<Vec3> found;
  for_each_voxel(planes.box().grown(Vec3{} - rule.border), [&](const Vec3& voxel) {
    if (planes.image.at(voxel) > least && is_maximum(planes, rule, voxel)) found.push_back(voxel);
  });
  std::ranges::stable_sort(found, [&](const Vec3& a, const Vec3& b) { return planes.image.at(a) > planes.image.at(b); });
  return found;
}

/// Return the peaks that are not too near to an earlier peak.
std::vector<Vec3> spaced(const std::vector<Vec3>& peaks, const Planes& planes, const Rule& rule) {
  const Vec3 reach{std::max<std::int64_t>(rule.reach[0] - 1, 0), std::max<std::int64_t>(rule.reach[1] - 1, 0),
                   std::max<std::int64_t>(rule.reach[2] - 1, 0)};
  std::vector<Vec3> near = cube(reach);
  if (rule.squared > 0) {
    std::erase_if(near, [&](const Vec3& o) { return o[0] * o[0] + o[1] * o[1] + o[2] * o[2] >= rule.squared; });
  }
  const Box box = planes.box();
  Tensor<std::uint8_t, 3> rejected(box.size);
  std::vector<Vec3> kept;
  for (const Vec3& peak : peaks) {
    if (rejected.view().at(peak - box.start) != 0) continue;
    kept.push_back(peak);
    for (const Vec3& offset : near) {
      const Vec3 other = peak + offset;
      if (box.contains(other)) rejected.view().at(other - box.start) = 1;
    }
  }
  return kept;
}

void add_peaks(const Planes& planes, const Rule& rule, float least, std::vector<Vec3>& seeds) {
  const std::vector<Vec3> kept = spaced(peaks_of(planes, rule, least), planes, rule);
  seeds.insert(seeds.end(), kept.begin(), kept.end());
}

/// Return a mask without the voxels that have a voxel 0 beside them.
Tensor<std::uint8_t, 3> eroded(const Tensor<std::uint8_t, 3>& mask) {
  Tensor<std::uint8_t, 3> out(mask.shape());
  const Vec3& sizes = mask.shape();
  const Vec3 steps{sizes[1] * sizes[2], sizes[2], 1};
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    std::uint8_t kept = mask.data()[i];
    for (std::size_t axis = 0; axis < 3 && kept != 0; ++axis) {
      const std::int64_t place = i / steps[axis] % sizes[axis];
      if (place > 0) kept &= mask.data()[i - steps[axis]];
      if (place + 1 < sizes[axis]) kept &= mask.data()[i + steps[axis]];
    }
    out.data()[i] = kept;
  }
  return out;
}

}  // namespace

std::vector<Vec3> dense_seeds(const SeedSearch& search) {
  const auto threshold = static_cast<float>(number(search.values, "dense_threshold"));
  const bool invert = number(search.values, "dense_invert") != 0.0;
  const auto erosions = static_cast<std::int64_t>(number(search.values, "dense_num_erosions"));
  Tensor<std::uint8_t, 3> mask(search.image.shape());
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    mask.data()[i] = (search.image.data()[i] > threshold) != invert ? 1 : 0;
  }
  for (std::int64_t i = 0; i < erosions; ++i) mask = eroded(mask);
  std::vector<Vec3> seeds;
  seeds.reserve(static_cast<std::size_t>(std::ranges::count(mask.span(), std::uint8_t{1})));
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    if (mask.data()[i] != 0) seeds.push_back(position_of(i, mask.shape()));
  }
  report(search.progress, 1, 1);
  return seeds;
}

std::vector<Vec3> image_peak_seeds(const SeedSearch& search) {
  const auto far = static_cast<std::int64_t>(number(search.values, "image_peaks_min_distance_3d"));
  const auto near = static_cast<std::int64_t>(number(search.values, "image_peaks_min_distance_2d"));
  const std::int64_t planes = search.image.shape(0);
  std::vector<Vec3> seeds;
  if (search.image.size() == 0) return seeds;
  if (far >= 0) {
    const Planes all{search.image, 0, planes};
    const Vec3 distance{far, far, far};
    add_peaks(all, {cube(distance), distance, distance, 0}, std::ranges::min(all.values()), seeds);
  }
  report(search.progress, 1, 2);
  for (std::int64_t z = 0; near >= 0 && z < planes; ++z) {
    const Planes one{search.image, z, z + 1};
    const Vec3 distance{0, near, near};
    add_peaks(one, {cube(distance), distance, distance, 0}, std::ranges::min(one.values()), seeds);
  }
  report(search.progress, 2, 2);
  return seeds;
}

std::vector<Vec3> disk_peak_seeds(const SeedSearch& search) {
  const auto distance = static_cast<std::int64_t>(number(search.values, "disk_peaks_min_distance_2d"));
  const auto share = static_cast<float>(number(search.values, "disk_peaks_threshold_rel"));
  const auto radius = static_cast<std::int64_t>(number(search.values, "disk_peaks_disk_radius"));
  const Rule rule{disk(radius), {0, distance, distance}, {0, distance, distance}, distance * distance};
  std::vector<Vec3> seeds;
  if (search.image.size() == 0) return seeds;
  for (std::int64_t z = 0; z < search.image.shape(0); ++z) {
    const Planes one{search.image, z, z + 1};
    const auto [least, most] = std::ranges::minmax(one.values());
    add_peaks(one, rule, std::max(least, share * most), seeds);
  }
  report(search.progress, 1, 1);
  return seeds;
}

std::vector<Vec3> brightest_seeds(const SeedSearch& search) {
  const Vec3& shape = search.image.shape();
  std::vector<std::int64_t> voxels;
  for_each_voxel(Box{{}, shape}.grown(Vec3{} - search.margin), [&](const Vec3& at) {
    const std::int64_t voxel = (at[0] * shape[1] + at[1]) * shape[2] + at[2];
    if ((search.bits(voxel) & ~kClosedByShift) == 0) voxels.push_back(voxel);
  });
  const float* image = search.image.data();
  std::ranges::sort(voxels,
                    [image](std::int64_t a, std::int64_t b) { return image[a] != image[b] ? image[a] > image[b] : a > b; });
  std::vector<Vec3> seeds;
  seeds.reserve(voxels.size());
  for (const std::int64_t voxel : voxels) seeds.push_back(position_of(voxel, shape));
  report(search.progress, 1, 1);
  return seeds;
}

}  // namespace floodtide::segment
