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

/// A box that grows voxel by voxel.
struct Extent {
  Vec3 low{INT64_MAX, INT64_MAX, INT64_MAX};
  Vec3 high{-1, -1, -1};  ///< last voxel, included

  void add(const Vec3& first, const Vec3& last) noexcept {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      low[axis] = std::min(low[axis], first[axis]);
      high[axis] = std::max(high[axis], last[axis]);
    }
  }
  [[nodiscard]] bool empty() const noexcept { return high[0] < 0; }
  [[nodiscard]] Box box() const noexcept { return {low, high - low + Vec3{1, 1, 1}}; }
};

/// The label of an object, and the box of its voxels.
struct Object {
  std::int64_t label;
  Box box;
};

/// Return the objects of an array of labels, by ascending label.
[[nodiscard]] inline std::vector<Object> objects_of(View<const std::int64_t, 3> labels) {
  std::map<std::int64_t, Extent> extents;
  auto last = extents.end();
  for_each_voxel({{}, labels.shape()}, [&](const Vec3& at) {
    const std::int64_t label = labels.at(at);
    if (!is_object(label)) return;
    if (last == extents.end() || last->first != label) last = extents.try_emplace(label).first;
    last->second.add(at, at);
  });
  std::vector<Object> objects;
  for (const auto& [label, extent] : extents) objects.push_back({label, extent.box()});
  return objects;
}

}  // namespace floodtide::data
