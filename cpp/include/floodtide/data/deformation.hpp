// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "floodtide/base/random.hpp"
#include "floodtide/data/augmentation.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Axis `axis` of the result is axis source_axis[axis] of the source, reversed if reversed[axis].
struct AxisMap {
  std::array<int, 3> source_axis{0, 1, 2};
  std::array<bool, 3> reversed{};
  [[nodiscard]] bool keeps_axes() const noexcept { return source_axis == std::array<int, 3>{0, 1, 2}; }
};

/// Map from the voxels of a patch to a volume. With d = (z, y, x) from the middle of the patch, the voxel shows the place
/// A (matrix d + displacement(voxel) + shift(z)) from the middle of the patch's box in the volume. A is the axis map.
struct Deformation {
  using Point = std::array<double, 3>;

  AxisMap axes;
  std::array<Point, 3> matrix{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  /// [component][cz, cy, cx]: control points of a cubic B-spline, every kControlSpacing voxels; point 1 lies on voxel 0. Empty:
  /// no displacement.
  std::array<Tensor<double, 3>, 3> control;
  std::vector<std::array<double, 2>> shift;  ///< (y, x) of each section; empty: none

  /// Return true if every voxel of the patch shows one voxel of the source box, as apply(axes) has them.
  [[nodiscard]] bool moves_axes_only() const noexcept;
};

inline constexpr std::int64_t kControlSpacing = 32;

/// What the random numbers of an example depend on.
struct ExampleKey {
  std::uint64_t seed;
  std::int64_t epoch;
  std::int64_t number;
  [[nodiscard]] Philox random(std::uint64_t purpose) const noexcept {
    return {seed, stream_id(purpose, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(number))};
  }
};

/// Return the number that lies this share of the way from `low` to `high`.
[[nodiscard]] constexpr double between(double low, double high, double share) noexcept { return low + (high - low) * share; }
/// Draw a factor whose logarithm is uniform, from 1 / (1 + amount) to 1 + amount.
[[nodiscard]] double draw_factor(double amount, Philox& random);
/// Draw a deformation of patches of a size. The random numbers of an option do not depend on the other options.
[[nodiscard]] Deformation draw_deformation(const Augmentation& augmentation, const Vec3& patch_size, const ExampleKey& key);

/// Return the permuted and reflected array. T is float or std::int64_t.
template <class T>
[[nodiscard]] Tensor<T, 3> apply(const AxisMap& map, View<const T, 3> source);

/// The places that the voxels of a patch show.
class Places {
 public:
  /// @param patch  box of the patch in the volume
  /// @param margin more voxels (z, y, x) on both sides; they are displaced as the nearest voxel of the patch
  Places(const Deformation& deformation, const Box& patch, const Vec3& margin = {0, 0, 0});

  /// Move all places alike, so that the voxel in the middle of a patch of odd size shows `centre`. Places outside of the box
  /// `inside` become the nearest ones in it.
  void move_middle_to(const Vec3& centre, const Box& inside) noexcept;

  [[nodiscard]] const Vec3& size() const noexcept { return size_; }  ///< of the patch with the margin
  /// Return the smallest box of the voxels next to the places. A place outside of `inside` counts as the nearest voxel inside.
  /// The places of the `without` (z, y, x) outermost voxels on each side do not count.
  [[nodiscard]] Box bounds(const Box& inside, const Vec3& without = {0, 0, 0}) const;
  /// Return the place (z, y, x) in the volume of a voxel. Voxel 0 is the first one of the margin.
  [[nodiscard]] const Deformation::Point& at(const Vec3& voxel) const noexcept {
    return points_[static_cast<std::size_t>((voxel[0] * size_[1] + voxel[1]) * size_[2] + voxel[2])];
  }

 private:
  Vec3 size_;
  std::vector<Deformation::Point> points_;
};

/// Interpolate linearly at the places. The `without` (z, y, x) outermost voxels on each side are left out. Voxels outside the
/// block count as `outside`, or as the nearest voxel of the block if it is empty.
///
/// @param block   voxels of the volume, [z, y, x]
/// @param origin  place of the first voxel of the block in the volume
[[nodiscard]] Tensor<float, 3> interpolate(const Places& places, const Vec3& without, View<const float, 3> block,
                                           const Vec3& origin, std::optional<float> outside);

/// Return the label of the voxel nearest to each place, and `outside` for places outside the block.
[[nodiscard]] Tensor<std::int64_t, 3> nearest(const Places& places, View<const std::int64_t, 3> block, const Vec3& origin,
                                              std::int64_t outside);

}  // namespace floodtide::data
