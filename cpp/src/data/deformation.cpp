// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/deformation.hpp"

#define EIGEN_DONT_PARALLELIZE  // all threading goes through parallel_for
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "data/purposes.hpp"

namespace floodtide::data {
namespace {

using Point = Deformation::Point;
using Matrix = std::array<Point, 3>;

std::int64_t control_points(std::int64_t voxels) { return (voxels - 1) / kControlSpacing + 4; }

/// Draw a uniform permutation of the permutable axes, then reverse each reflectable axis with probability one half.
/// Source: google/ffn ffn/training/augmentation.py, PermuteAndReflect.
AxisMap draw_axis_map(const std::vector<int>& permutable_axes, const std::vector<int>& reflectable_axes, Philox random) {
  AxisMap map;
  std::vector<int> shuffled = permutable_axes;
  for (std::size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[random.below(i)]);
  for (std::size_t i = 0; i < shuffled.size(); ++i) map.source_axis[static_cast<std::size_t>(permutable_axes[i])] = shuffled[i];
  for (const int axis : reflectable_axes) map.reversed[static_cast<std::size_t>(axis)] = random.below(2) == 1;
  return map;
}

Matrix rotation_in_plane(double angle) {
  const double c = std::cos(angle), s = std::sin(angle);
  return {{{1, 0, 0}, {0, c, s}, {0, -s, c}}};
}

/// Rotation about an axis of length 1 (Rodrigues).
Matrix rotation_about(const Point& axis, double angle) {
  const double c = std::cos(angle), s = std::sin(angle);
  Matrix result{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) result[i][j] += (1 - c) * axis[i] * axis[j] + (i == j ? c : 0);
    const std::size_t next = (i + 1) % 3, last = (i + 2) % 3;
    result[next][last] -= s * axis[i];
    result[last][next] += s * axis[i];
  }
  return result;
}

Matrix draw_matrix(const Augmentation& augmentation, Philox random) {
  const double largest = augmentation.rotation_deg * std::numbers::pi / 180;
  const double angle = between(-largest, largest, random.uniform());
  const double magnification = draw_factor(augmentation.scale, random);
  const double height = between(-1, 1, random.uniform());
  const double azimuth = 2 * std::numbers::pi * random.uniform();
  const double radius = std::sqrt(1 - height * height);
  Matrix matrix = augmentation.rotate_in_space
                      ? rotation_about({height, radius * std::sin(azimuth), radius * std::cos(azimuth)}, angle)
                      : rotation_in_plane(angle);
  for (std::size_t i = 0; i < 3; ++i) {
    for (double& value : matrix[i]) value /= i == 0 && !augmentation.rotate_in_space ? 1 : magnification;
  }
  return matrix;
}

using Table = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Weights [voxel, control point] of a cubic B-spline along `count` voxels.
Table spline_weights(std::int64_t count) {
  Table weights = Table::Zero(count, control_points(count));
  for (std::int64_t voxel = 0; voxel < count; ++voxel) {
    const double u = static_cast<double>(voxel % kControlSpacing) / kControlSpacing, v = 1 - u;
    weights.block<1, 4>(voxel, voxel / kControlSpacing) << v * v * v / 6, (3 * u * u * u - 6 * u * u + 4) / 6,
        (3 * v * v * v - 6 * v * v + 4) / 6, u * u * u / 6;
  }
  return weights;
}

/// Evaluate the spline at the voxels of a patch: [z * y, x].
Table displacement_of(const Tensor<double, 3>& control, const Vec3& patch_size) {
  const auto [depth, height, width] = control.shape();
  const Table sections = spline_weights(patch_size[0]) * Eigen::Map<const Table>(control.data(), depth, height * width);
  const Table along_y = spline_weights(patch_size[1]);
  Table rows(patch_size[0] * patch_size[1], width);
  for (std::int64_t z = 0; z < patch_size[0]; ++z) {
    rows.middleRows(z * patch_size[1], patch_size[1]) = along_y * Eigen::Map<const Table>(&sections(z, 0), height, width);
  }
  return rows * spline_weights(patch_size[2]).transpose();
}

Vec3 floor_of(const Point& point) {
  return by_axis([&](std::size_t axis) { return static_cast<std::int64_t>(std::floor(point[axis])); });
}

/// Return the voxel of an array of this shape that is nearest to a place.
Vec3 clamped(const Vec3& at, const Vec3& shape) {
  return by_axis([&](std::size_t axis) { return std::clamp<std::int64_t>(at[axis], 0, shape[axis] - 1); });
}

Tensor<double, 3> draw_control(double deviation, const Vec3& patch_size, Philox& random) {
  Tensor<double, 3> points(by_axis([&](std::size_t axis) { return control_points(patch_size[axis]); }));
  // On a control point the weights along an axis are 1/6, 4/6, 1/6, and their squares add up to 1/2.
  const double factor = deviation * std::sqrt(8.0);
  for (double& value : points.span()) value = factor * random.normal();
  return points;
}

}  // namespace

bool Deformation::moves_axes_only() const noexcept {
  return control[1].size() == 0 && shift.empty() && matrix == Deformation{}.matrix;
}

double draw_factor(double amount, Philox& random) {
  const double largest = std::log1p(amount);
  return std::exp(between(-largest, largest, random.uniform()));
}

Deformation draw_deformation(const Augmentation& augmentation, const Vec3& patch_size, const ExampleKey& key) {
  Deformation deformation;
  deformation.axes =
      draw_axis_map(augmentation.permutable_axes, augmentation.reflectable_axes, key.random(kAugmentationPurpose));
  if (augmentation.rotation_deg > 0 || augmentation.scale > 0) {
    deformation.matrix = draw_matrix(augmentation, key.random(kRotationPurpose));
  }
  if (augmentation.elastic > 0) {
    Philox random = key.random(kElasticPurpose);
    for (std::size_t axis = augmentation.rotate_in_space ? 0 : 1; axis < 3; ++axis) {
      deformation.control[axis] = draw_control(augmentation.elastic, patch_size, random);
    }
  }
  if (augmentation.shifted_section > 0) {
    Philox random = key.random(kShiftPurpose);
    for (std::int64_t z = 0; z < patch_size[0]; ++z) {
      const bool shifted = random.uniform() < augmentation.shifted_section;
      const double far_y = static_cast<double>(patch_size[1]) / 16, far_x = static_cast<double>(patch_size[2]) / 16;
      const std::array<double, 2> by{between(-far_y, far_y, random.uniform()), between(-far_x, far_x, random.uniform())};
      deformation.shift.push_back(shifted ? by : std::array<double, 2>{});
    }
  }
  return deformation;
}

template <class T>
Tensor<T, 3> apply(const AxisMap& map, View<const T, 3> source) {
  const Vec3 strides{source.shape(1) * source.shape(2), source.shape(2), 1};
  Vec3 shape;
  Vec3 step;
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto from = static_cast<std::size_t>(map.source_axis[axis]);
    shape[axis] = source.shape(from);
    step[axis] = map.reversed[axis] ? -strides[from] : strides[from];
    if (map.reversed[axis]) offset += strides[from] * (shape[axis] - 1);
  }
  Tensor<T, 3> result(shape);
  T* out = result.data();
  for (std::int64_t z = 0; z < shape[0]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const T* row = source.data() + offset + z * step[0] + y * step[1];
      for (std::int64_t x = 0; x < shape[2]; ++x) *out++ = row[x * step[2]];
    }
  }
  return result;
}

template Tensor<float, 3> apply(const AxisMap& map, View<const float, 3> source);
template Tensor<std::int64_t, 3> apply(const AxisMap& map, View<const std::int64_t, 3> source);

Places::Places(const Deformation& deformation, const Box& patch, const Vec3& margin) : size_(patch.grown(margin).size) {
  std::array<Table, 3> displacement;
  Point middle{}, centre{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    middle[axis] = 0.5 * static_cast<double>(patch.size[axis] - 1);
    centre[axis] = static_cast<double>(patch.start[axis]) + middle[axis];
    if (deformation.control[axis].size() > 0) displacement[axis] = displacement_of(deformation.control[axis], patch.size);
  }
  points_.resize(static_cast<std::size_t>(volume<3>(size_)));
  auto first_point = points_.begin();  // of a row
  for_each_voxel({Vec3{} - margin, {size_[0], size_[1], 1}}, [&](const Vec3& first) {
    const Vec3 near = clamped(first, patch.size);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const Point& row = deformation.matrix[axis];
      double at_row =
          row[0] * (static_cast<double>(first[0]) - middle[0]) + row[1] * (static_cast<double>(first[1]) - middle[1]);
      if (axis > 0 && !deformation.shift.empty()) at_row += deformation.shift[static_cast<std::size_t>(near[0])][axis - 1];
      const double* displaced =
          displacement[axis].size() > 0 ? &displacement[axis](near[0] * patch.size[1] + near[1], 0) : nullptr;
      const auto from = static_cast<std::size_t>(deformation.axes.source_axis[axis]);
      const double sign = deformation.axes.reversed[axis] ? -1 : 1;
      auto point = first_point;
      for (std::int64_t x = first[2]; x < first[2] + size_[2]; ++x) {
        double to = at_row + row[2] * (static_cast<double>(x) - middle[2]);
        if (displaced != nullptr) to += displaced[std::clamp<std::int64_t>(x, 0, patch.size[2] - 1)];
        (*point++)[from] = centre[from] + sign * to;
      }
    }
    first_point += size_[2];
  });
}

void Places::move_middle_to(const Vec3& centre, const Box& inside) noexcept {
  const Point middle = points_[points_.size() / 2];
  for (Point& point : points_) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const double moved = point[axis] - middle[axis] + static_cast<double>(centre[axis]);
      point[axis] = std::clamp(moved, static_cast<double>(inside.start[axis]), static_cast<double>(inside.end()[axis] - 1));
    }
  }
}

Box Places::bounds(const Box& inside, const Vec3& without) const {
  Point low = at(without), high = low;
  for_each_voxel({without, size_ - without - without}, [&](const Vec3& voxel) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      low[axis] = std::min(low[axis], at(voxel)[axis]);
      high[axis] = std::max(high[axis], at(voxel)[axis]);
    }
  });
  for (double& value : high) value = std::ceil(value);
  const Vec3 start = clamped(floor_of(low) - inside.start, inside.size);
  return {inside.start + start, clamped(floor_of(high) - inside.start, inside.size) - start + Vec3{1, 1, 1}};
}

Tensor<float, 3> interpolate(const Places& places, const Vec3& without, View<const float, 3> block, const Vec3& origin,
                             std::optional<float> outside) {
  const Shape<3>& shape = block.shape();
  const Box whole{{}, shape};
  const auto voxel = [&](const Vec3& at) { return outside && !whole.contains(at) ? *outside : block.at(clamped(at, shape)); };
  const auto at_place = [&](const Point& point) {
    const Vec3 floor = floor_of(point), at = floor - origin;
    std::array<float, 3> behind{};
    Vec3 last = at;  // of the neighbours with a weight
    for (std::size_t axis = 0; axis < 3; ++axis) {
      behind[axis] = static_cast<float>(point[axis] - static_cast<double>(floor[axis]));
      if (behind[axis] > 0) ++last[axis];
    }
    std::array<float, 8> neighbours;  // if some are outside
    const float* first = neighbours.data();
    Vec3 step{4, 2, 1};
    if (whole.contains(at) && whole.contains(last)) {
      first = &block.at(at);
      step = {shape[1] * shape[2], shape[2], 1};
    } else {
      for (std::int64_t i = 0; i < 8; ++i) neighbours[static_cast<std::size_t>(i)] = voxel(at + Vec3{i / 4, i / 2 % 2, i % 2});
    }
    const auto row = [&](const float* left) {
      return behind[2] == 0 ? left[0] : left[0] * (1 - behind[2]) + left[1] * behind[2];
    };
    const auto plane = [&](const float* upper) {
      return behind[1] == 0 ? row(upper) : row(upper) * (1 - behind[1]) + row(upper + step[1]) * behind[1];
    };
    return behind[0] == 0 ? plane(first) : plane(first) * (1 - behind[0]) + plane(first + step[0]) * behind[0];
  };
  Tensor<float, 3> result(places.size() - without - without);
  float* out = result.data();
  for_each_voxel({without, result.shape()}, [&](const Vec3& one) { *out++ = at_place(places.at(one)); });
  return result;
}

Tensor<std::int64_t, 3> nearest(const Places& places, View<const std::int64_t, 3> block, const Vec3& origin,
                                std::int64_t outside) {
  const Box whole{{}, block.shape()};
  Tensor<std::int64_t, 3> result(places.size());
  std::int64_t* out = result.data();
  for_each_voxel({{}, places.size()}, [&](const Vec3& voxel) {
    const auto [z, y, x] = places.at(voxel);
    const Vec3 at = floor_of({z + 0.5, y + 0.5, x + 0.5}) - origin;
    *out++ = whole.contains(at) ? block.at(at) : outside;
  });
  return result;
}

}  // namespace floodtide::data
