// SPDX-License-Identifier: Apache-2.0
#include "data/augmentation.hpp"

#include <utility>
#include <vector>

namespace floodtide::data {

AxisMap draw_axis_map(std::span<const int> permutable_axes, std::span<const int> reflectable_axes, Philox& random) {
  AxisMap map;
  std::vector<int> shuffled(permutable_axes.begin(), permutable_axes.end());
  for (std::size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[random.below(i)]);
  for (std::size_t i = 0; i < shuffled.size(); ++i) map.source_axis[static_cast<std::size_t>(permutable_axes[i])] = shuffled[i];
  for (const int axis : reflectable_axes) map.reversed[static_cast<std::size_t>(axis)] = random.below(2) == 1;
  return map;
}

Tensor<float, 3> apply(const AxisMap& map, View<const float, 3> source) {
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
  Tensor<float, 3> result(shape);
  float* out = result.data();
  for (std::int64_t z = 0; z < shape[0]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const float* row = source.data() + offset + z * step[0] + y * step[1];
      for (std::int64_t x = 0; x < shape[2]; ++x) *out++ = row[x * step[2]];
    }
  }
  return result;
}

}  // namespace floodtide::data
