// SPDX-License-Identifier: Apache-2.0
// Partitions of a label volume: the class of a voxel tells which share of the box around the voxel its object fills. Training
// draws centres from all classes equally often, so that thin and thick parts of objects have the same weight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/progress.hpp"
#include "floodtide/data/volume.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

struct PartitionOptions {
  std::vector<double> thresholds;  ///< ascending fractions between classes, at most 253
  Vec3 lom_radius{24, 24, 24};     ///< half size (z, y, x) of the box around a voxel
  std::int64_t min_size = 10000;   ///< smaller objects (voxels) count as background
  std::optional<Box> box;          ///< is treated as the whole volume; empty: the whole volume
};

/// Computes partitions block by block. The volume may be larger than memory. The blocks are independent: any rank may count or
/// compute any block, with the same result.
///
/// 1. Objects of less than min_size voxels become background: count() all counting blocks, then keep_large().
/// 2. A voxel whose box of 2 * lom_radius + 1 voxels lies inside the volume gets 0 if it is background, else
///    1 + the number of thresholds <= (voxels of its object in the box) / (voxels of the box). Others get 255.
/// Source: google/ffn compute_partitions.py. For each object, running sums over its bounding box in the block are computed.
class PartitionJob : Immovable {
 public:
  /// Opens the labels. Throws the errors of open_volume(), Error(invalid_file) unless the labels are integers,
  /// Error(out_of_range) for a box outside the volume, and Error(invalid_argument) for options outside their ranges or a radius
  /// that leaves no voxel.
  PartitionJob(const VolumeReference& labels, const PartitionOptions& options);
  ~PartitionJob();

  [[nodiscard]] std::int64_t counting_blocks() const noexcept;
  /// Count the voxels of each label in the counting blocks [begin, end), on all threads. Returns two rows: the labels,
  /// ascending, and the voxels of each.
  [[nodiscard]] Tensor<std::int64_t, 2> count(std::int64_t begin, std::int64_t end, const Progress& progress = {}) const;
  /// Take what count() returns for all counting blocks, in any number of parts. Labels of at least min_size voxels are kept.
  void keep_large(const std::vector<View<const std::int64_t, 2>>& parts);

  [[nodiscard]] std::int64_t blocks() const noexcept;
  [[nodiscard]] Box block(std::int64_t number) const;
  /// Compute the partitions of the blocks [begin, end), on all threads. Call keep_large() before, unless min_size is below 2.
  [[nodiscard]] std::vector<Tensor<std::uint8_t, 3>> compute(std::int64_t begin, std::int64_t end) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::data
