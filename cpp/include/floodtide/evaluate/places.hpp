// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "floodtide/tensor/box.hpp"

namespace floodtide::evaluate {

/// Finds a voxel of each of some pairs (segment, object), block by block: the middle one in the order in which voxels are read.
class PairPlaces {
 public:
  struct Pair {
    std::uint64_t segment;
    std::uint64_t object;
    std::int64_t voxels;  ///< of the pair in all blocks together
  };

  explicit PairPlaces(std::span<const Pair> pairs);

  /// Look at the voxels of a box [z, y, x]. Throws Error(shape_mismatch) if an array has another number of voxels than the box.
  void add(std::span<const std::uint64_t> segmentation, std::span<const std::uint64_t> truth, const Box& box);

  /// Return the voxel of each pair (z, y, x), in the order of the pairs; no value if the blocks did not hold it.
  [[nodiscard]] std::vector<std::optional<Vec3>> places() const;

 private:
  struct Place {
    std::int64_t before;  ///< voxels to pass before the one that counts
    std::optional<Vec3> voxel;
  };

  std::vector<std::pair<std::uint64_t, std::uint64_t>> order_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Place> places_;
};

}  // namespace floodtide::evaluate
