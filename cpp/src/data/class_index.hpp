// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/blocks.hpp"
#include "floodtide/base/progress.hpp"
#include "floodtide/data/patches.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::data {

inline constexpr int kNoClass = 255;  ///< partition value of voxels that cannot be centres

/// Finds the k-th voxel of each partition class over several volumes, from one histogram for each block of 64^3 voxels (8
/// bytes for each class that occurs). Voxels are ordered by volume, block and row-major position in the block.
class ClassIndex {
 public:
  /// Counts the classes inside the boxes, one box for each volume. The volumes must outlive the index.
  ClassIndex(std::vector<const Volume*> volumes, std::span<const Box> boxes, const Progress& progress);

  /// Return the classes that occur, ascending, without 255.
  [[nodiscard]] const std::vector<int>& classes() const noexcept { return classes_; }
  /// Return the number of voxels of a class.
  [[nodiscard]] std::int64_t count(int partition_class) const;
  /// Return the number of voxels of the largest class, or 0 without classes.
  [[nodiscard]] std::int64_t largest() const;
  /// Return voxel number k of a class, 0 <= k < count. Reads the block of the voxel.
  [[nodiscard]] Centre find(int partition_class, std::int64_t k) const;

  [[nodiscard]] std::int64_t blocks() const noexcept { return first_block_.back(); }
  struct Block {
    std::int64_t volume;
    Box box;
  };
  [[nodiscard]] Block block(std::int64_t number) const;
  /// Read block `number`. Throws Error(invalid_file) if the voxels of a class are not as many as in the first read.
  [[nodiscard]] Tensor<std::uint8_t, 3> read(std::int64_t number) const;
  /// Return the number of voxels of the class in earlier blocks.
  [[nodiscard]] std::int64_t before(int partition_class, std::int64_t block) const;

 private:
  [[nodiscard]] const Volume& volume(const Block& block) const;
  [[nodiscard]] const std::vector<std::int64_t>& sums(int partition_class) const;

  std::vector<const Volume*> volumes_;
  std::vector<BlockGrid> grids_;
  std::vector<std::int64_t> first_block_;  ///< number of the first block of each volume, and of all
  std::vector<int> classes_;
  std::array<std::vector<std::int64_t>, 256> sums_;  ///< for each class that occurs: voxels before block b, b = 0..blocks()
};

}  // namespace floodtide::data
