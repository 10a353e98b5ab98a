// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/axis_map.hpp"

#include <algorithm>
#include <utility>

#include "floodtide/base/error.hpp"

namespace floodtide::data {
namespace {

void require_axes(const std::vector<int>& axes, const char* name) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    FLOODTIDE_REQUIRE(axes[i] >= 0 && axes[i] <= 2 && std::count(axes.begin(), axes.end(), axes[i]) == 1, invalid_argument,
                      name, ": expected different axes out of 0 (z), 1 (y), 2 (x), got ", axes[i]);
  }
}

}  // namespace

void require_axes(const std::vector<int>& permutable_axes, const std::vector<int>& reflectable_axes, const Vec3& patch_size) {
  require_axes(permutable_axes, "permutable_axes");
  require_axes(reflectable_axes, "reflectable_axes");
  for (const int axis : permutable_axes) {
    const auto first = static_cast<std::size_t>(permutable_axes.front());
    FLOODTIDE_REQUIRE(patch_size[static_cast<std::size_t>(axis)] == patch_size[first], invalid_argument,
                      "permutable_axes: axes ", first, " and ", axis, " have different patch sizes in ", Show{patch_size});
  }
}

AxisMap draw_axis_map(std::span<const int> permutable_axes, std::span<const int> reflectable_axes, Philox& random) {
  AxisMap map;
  std::vector<int> shuffled(permutable_axes.begin(), permutable_axes.end());
  for (std::size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[random.below(i)]);
  for (std::size_t i = 0; i < shuffled.size(); ++i) map.source_axis[static_cast<std::size_t>(permutable_axes[i])] = shuffled[i];
  for (const int axis : reflectable_axes) map.reversed[static_cast<std::size_t>(axis)] = random.below(2) == 1;
  return map;
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

}  // namespace floodtide::data
