// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/blocks.hpp"
#include "floodtide/base/progress.hpp"
#include "floodtide/data/patches.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::data {

inline constexpr int kNoClass = 255;  ///< partition value of voxels that cannot be centres

/// Finds the k-th voxel of each class over several boxes, from one histogram for each block (8 bytes for each class that
/// occurs). Voxels are ordered by box, block and row-major position in the block.
class ClassIndex {
 public:
  /// Reads the classes of a part of box `number`; several threads may call it.
  using Read = std::function<Tensor<std::uint8_t, 3>(std::int64_t number, const Box& part)>;

  /// Counts the classes inside the boxes.
  ///
  /// @param names of the boxes' volumes, for messages
  /// @param block size of the blocks that read() reads
  ClassIndex(std::vector<std::string> names, std::span<const Box> boxes, Read read, const Vec3& block,
             const Progress& progress);

  /// Return the classes that occur, ascending, without 255.
  [[nodiscard]] const std::vector<int>& classes() const noexcept { return classes_; }
  /// Return the number of voxels of a class.
  [[nodiscard]] std::int64_t count(int partition_class) const;
  /// Return the number of voxels of all classes in box `number`.
  [[nodiscard]] std::int64_t count_in(std::int64_t number) const;
  /// Return voxel number k of a class, 0 <= k < count. Reads the block of the voxel. Throws Error(invalid_file) if the voxels
  /// of a class in the block are not as many as in the first read.
  [[nodiscard]] Centre find(int partition_class, std::int64_t k) const;

 private:
  struct Block {
    std::int64_t number;  // of the box
    Box box;
  };
  [[nodiscard]] std::int64_t blocks() const noexcept { return first_block_.back(); }
  [[nodiscard]] Block block(std::int64_t number) const;
  /// Return the number of voxels of the class in earlier blocks.
  [[nodiscard]] std::int64_t before(int partition_class, std::int64_t block) const;
  [[nodiscard]] const std::vector<std::int64_t>& sums(int partition_class) const;

  std::vector<std::string> names_;
  Read read_;
  std::vector<BlockGrid> grids_;
  std::vector<std::int64_t> first_block_;  ///< number of the first block of each box, and of all
  std::vector<int> classes_;
  std::array<std::vector<std::int64_t>, 256> sums_;  ///< for each class that occurs: voxels before block b, b = 0..blocks()
};

/// Return the index of the centres of patches, by their classes in the partition volumes (uint8). The sources must outlive it.
[[nodiscard]] ClassIndex partition_index(std::span<const Source> sources, const Vec3& patch_size, const Progress& progress);

}  // namespace floodtide::data
