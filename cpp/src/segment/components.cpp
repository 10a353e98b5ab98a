// SPDX-License-Identifier: Apache-2.0
// Union-find, in which the root of a component is its first voxel or item.
#include "floodtide/segment/components.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "floodtide/base/error.hpp"
#include "floodtide/tensor/box.hpp"

namespace floodtide::segment {
namespace {

/// Return the root of the tree of an item, and shorten the path to it. An item whose parent is itself is a root.
template <class Item>
Item root_of(std::vector<Item>& parents, Item item) {
  const auto parent = [&parents](Item of) -> Item& { return parents[static_cast<std::size_t>(of)]; };
  while (parent(item) != item) {
    parent(item) = parent(parent(item));
    item = parent(item);
  }
  return item;
}

}  // namespace

// One sweep joins neighbours. A second sweep counts voxels, and a third numbers the components.
Tensor<std::int32_t, 3> connected_components(View<const std::uint8_t, 3> mask, std::int64_t min_size) {
  FLOODTIDE_REQUIRE(mask.size() <= std::numeric_limits<std::int32_t>::max(), unsupported, "connected_components: mask has ",
                    mask.size(), " voxels, expected at most 2^31 - 1");
  const Vec3& shape = mask.shape();
  const Vec3 strides{shape[1] * shape[2], shape[2], 1};
  std::vector<std::int32_t> parents(static_cast<std::size_t>(mask.size()));
  std::vector<std::int64_t> sizes(parents.size());
  std::int32_t voxel = 0;
  for_each_voxel({{}, shape}, [&](const Vec3& at) {
    const std::int32_t here = voxel++;
    parents[static_cast<std::size_t>(here)] = here;
    if (mask.data()[here] == 0) return;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const auto neighbour = static_cast<std::int32_t>(here - strides[axis]);
      if (at[axis] == 0 || mask.data()[neighbour] == 0) continue;
      const std::int32_t a = root_of(parents, neighbour);
      const std::int32_t b = root_of(parents, here);
      parents[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
    }
  });
  for (voxel = 0; voxel < mask.size(); ++voxel) {
    if (mask.data()[voxel] != 0) ++sizes[static_cast<std::size_t>(root_of(parents, voxel))];
  }
  Tensor<std::int32_t, 3> labels(shape);
  std::int32_t pieces = 0;
  for (voxel = 0; voxel < mask.size(); ++voxel) {
    if (mask.data()[voxel] == 0) continue;
    const std::int32_t root = root_of(parents, voxel);  // the root is not after `voxel`, so that it has its label already
    if (sizes[static_cast<std::size_t>(root)] < min_size) continue;
    labels.data()[voxel] = root == voxel ? ++pieces : labels.data()[root];
  }
  return labels;
}

std::vector<std::int64_t> connected(std::int64_t count, std::span<const std::pair<std::int64_t, std::int64_t>> pairs) {
  std::vector<std::int64_t> parents(static_cast<std::size_t>(count));
  std::iota(parents.begin(), parents.end(), 0);
  for (const auto& [a, b] : pairs) {
    FLOODTIDE_REQUIRE(a >= 0 && a < count && b >= 0 && b < count, out_of_range, "reconcile: pair (", a, ", ", b,
                      "), expected items from 0 to ", count - 1);
    const std::int64_t first = root_of(parents, a), second = root_of(parents, b);
    // The smaller item becomes the root, whatever the order of pairs.
    parents[static_cast<std::size_t>(std::max(first, second))] = std::min(first, second);
  }
  for (std::int64_t item = 0; item < count; ++item) {
    parents[static_cast<std::size_t>(item)] = root_of(parents, item);
  }
  return parents;
}

}  // namespace floodtide::segment
