// SPDX-License-Identifier: Apache-2.0
// Union-find, in which the root of a component is its first voxel. One sweep joins neighbours. A second sweep counts voxels,
// and a third numbers the components.
#include "floodtide/segment/components.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "floodtide/base/error.hpp"
#include "segment/union_find.hpp"

namespace floodtide::segment {

Tensor<std::int32_t, 3> connected_components(View<const std::uint8_t, 3> mask, std::int64_t min_size) {
  FLOODTIDE_REQUIRE(mask.size() <= std::numeric_limits<std::int32_t>::max(), unsupported, "connected_components: mask has ",
                    mask.size(), " voxels, expected at most 2^31 - 1");
  const Vec3& shape = mask.shape();
  const Vec3 strides{shape[1] * shape[2], shape[2], 1};
  std::vector<std::int32_t> parents(static_cast<std::size_t>(mask.size()));
  std::vector<std::int64_t> sizes(parents.size());
  std::int32_t voxel = 0;
  for (std::int64_t z = 0; z < shape[0]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[2]; ++x, ++voxel) {
        parents[static_cast<std::size_t>(voxel)] = voxel;
        if (mask.data()[voxel] == 0) continue;
        const Vec3 at{z, y, x};
        for (std::size_t axis = 0; axis < 3; ++axis) {
          const auto neighbour = static_cast<std::int32_t>(voxel - strides[axis]);
          if (at[axis] == 0 || mask.data()[neighbour] == 0) continue;
          const std::int32_t a = root_of(parents, neighbour);
          const std::int32_t b = root_of(parents, voxel);
          parents[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
        }
      }
    }
  }
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

}  // namespace floodtide::segment
