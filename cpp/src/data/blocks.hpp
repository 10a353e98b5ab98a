// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "floodtide/base/parallel.hpp"
#include "floodtide/base/progress.hpp"
#include "floodtide/tensor/box.hpp"

namespace floodtide::data {

/// A box, cut along a grid of `block` voxels. The grid starts at voxel 0 of the volume, so that blocks of a multiple of the
/// chunk size contain whole chunks. The index of a block grows fastest along x.
class BlockGrid {
 public:
  BlockGrid(const Box& box, const Vec3& block) : box_(box), block_(block) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      first_[axis] = box.start[axis] / block[axis];
      counts_[axis] = box.size[axis] == 0 ? 0 : (box.end()[axis] - 1) / block[axis] + 1 - first_[axis];
    }
  }
  [[nodiscard]] std::int64_t size() const noexcept { return volume<3>(counts_); }
  [[nodiscard]] Box operator[](std::int64_t number) const noexcept {
    Box block{first_ + position_of(number, counts_), block_};
    for (std::size_t axis = 0; axis < 3; ++axis) block.start[axis] *= block_[axis];
    return intersection(block, box_);
  }

 private:
  Box box_;
  Vec3 block_;
  Vec3 first_{};
  Vec3 counts_{};
};

/// Call parallel_for for batches of [begin, end), and report progress between the batches, on the calling thread.
template <class Body>
void parallel_batches(std::int64_t begin, std::int64_t end, const Progress& progress, const Body& body) {
  const std::int64_t batch = 4 * static_cast<std::int64_t>(num_threads());
  for (std::int64_t first = begin; first < end; first += batch) {
    const std::int64_t count = std::min(batch, end - first);
    parallel_for(count, [&](std::int64_t chunk) { body(first + chunk); });
    report(progress, first + count - begin, end - begin);
  }
}

}  // namespace floodtide::data
