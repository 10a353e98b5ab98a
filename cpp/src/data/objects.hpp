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
    objects.push_back({label, {extent.low, extent.high - extent.low + Vec3{1, 1, 1}}});
  }
  return objects;
}

}  // namespace floodtide::data
