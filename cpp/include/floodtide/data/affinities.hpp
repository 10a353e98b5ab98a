// SPDX-License-Identifier: Apache-2.0
// Affinities, the targets of 3-D U-Nets: one number for each voxel and offset. The affinity is 1 if the voxel and the voxel at
// the offset from it belong to the same object, else 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "floodtide/data/patches.hpp"
#include "floodtide/data/samples.hpp"

namespace floodtide::data {

struct AffinityOptions {
  std::vector<Vec3> offsets{{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}};  ///< (z, y, x); by default the predecessors along each axis
  Vec3 patch_size{16, 128, 128};
  /// Meaning of label 0. False: unlabelled (FIB-25); the loss ignores pairs with such a voxel. True: membrane or background
  /// (synthetic volumes, gala); pairs with such a voxel have affinity 0.
  bool zero_is_boundary = false;
  /// Balance the values 0 and 1 in training patches: the weight of a voxel is 1 / (2 share), with the share of its value in the
  /// patch for the offset, clipped to [0.05, 0.95]. Both values then have about equal total weight. Source: gunpowder,
  /// BalanceLabels.
  bool balance = false;
  std::vector<int> permutable_axes;   ///< as in ExampleOptions
  std::vector<int> reflectable_axes;  ///< as in ExampleOptions
  /// Number of random patches of an epoch; empty: the number of fixed patches of the grid.
  std::optional<std::int64_t> patches;
  SampleOrderOptions order;
};

/// Compute the affinities of labels (0: no object) and their weights (1: counted, 0: ignored). The weight is 0 if the voxel at
/// the offset is outside the array and, unless zero_is_boundary, if one of the two voxels has label 0.
///
/// @param labels      [z, y, x]
/// @param out_targets [z, y, x, offsets]: 1 if the voxel and the one at the offset carry the same label other than 0, else 0
/// @param out_weights [z, y, x, offsets]
/// Throws Error(shape_mismatch).
void make_affinities(View<const std::int64_t, 3> labels, std::span<const Vec3> offsets, bool zero_is_boundary,
                     View<float, 4> out_targets, View<float, 4> out_weights);

/// Patches of labelled volumes. Training takes random positions, a function of seed, epoch and number. Validation takes a fixed
/// grid of patches over the boxes. The last patch along an axis ends with the box. Voxels that an earlier patch has counted
/// have weight 0, so that every voxel is counted at most once.
class AffinitySource final : public SampleSource {
 public:
  /// Opens the volumes, without partitions. Throws the errors of Source, and Error(invalid_argument) for a patch that does not
  /// fit into a box, no offsets, an offset of 0 or one that leaves the patch, axes outside 0..2, permutable axes of unequal
  /// size, or a step that takes more patches than an epoch has.
  AffinitySource(const std::vector<SourceOptions>& sources, const AffinityOptions& options);
  ~AffinitySource() override;
  AffinitySource(const AffinitySource&) = delete;
  AffinitySource& operator=(const AffinitySource&) = delete;
  AffinitySource(AffinitySource&&) = delete;
  AffinitySource& operator=(AffinitySource&&) = delete;

  [[nodiscard]] const AffinityOptions& options() const noexcept;
  [[nodiscard]] const SampleFormat& format() const noexcept override;
  [[nodiscard]] const SampleOrder& order() const noexcept override;
  /// Return the number of volumes.
  [[nodiscard]] std::int64_t groups() const noexcept override;
  [[nodiscard]] std::string group_name(std::int64_t group) const override;
  /// Return the number of patches of the grid.
  [[nodiscard]] std::int64_t fixed_size() const noexcept override;

  /// Place of a patch: its volume, and its box in the volume.
  struct Place {
    std::int64_t volume;
    Box box;
  };
  [[nodiscard]] Place fixed_place(std::int64_t number) const;
  /// Return the place of a training patch, before augmentation.
  [[nodiscard]] Place training_place(std::int64_t epoch, std::int64_t number) const;

 private:
  [[nodiscard]] Sample read_fixed(std::int64_t number) const override;
  [[nodiscard]] Sample read_training(std::int64_t epoch, std::int64_t number) const override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::data
