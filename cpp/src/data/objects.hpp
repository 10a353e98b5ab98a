// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "floodtide/data/labels.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// The label of an object, and the box of its voxels.
struct Object {
  std::int64_t label;
  Box box;
};

/// Return the objects of an array of labels, by ascending label.
[[nodiscard]] inline std::vector<Object> objects_of(View<const std::int64_t, 3> labels) {
  struct Extent {
    Vec3 low, high;
  };
  std::map<std::int64_t, Extent> extents;
  auto last = extents.end();
  for_each_voxel({{}, labels.shape()}, [&](const Vec3& at) {
    const std::int64_t label = labels.at(at);
    if (!is_object(label)) return;
    if (last == extents.end() || last->first != label) last = extents.try_emplace(label, Extent{at, at}).first;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      last->second.low[axis] = std::min(last->second.low[axis], at[axis]);
      last->second.high[axis] = std::max(last->second.high[axis], at[axis]);
    }
  });
  std::vector<Object> objects;
  for (const auto& [label, extent] : extents) {
    Box box{extent.low, {}};
    for (std::size_t axis = 0; axis < 3; ++axis) box.size[axis] = extent.high[axis] - extent.low[axis] + 1;
    objects.push_back({label, box});
  }
  return objects;
}

/// Return the box with one more voxel on each side, as far as `whole` reaches.
[[nodiscard]] inline Box grown(const Box& box, const Box& whole) {
  Box result;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    result.start[axis] = std::max(box.start[axis] - 1, whole.start[axis]);
    result.size[axis] = std::min(box.end()[axis] + 1, whole.end()[axis]) - result.start[axis];
  }
  return result;
}

}  // namespace floodtide::data
