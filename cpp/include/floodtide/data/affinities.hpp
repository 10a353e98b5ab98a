// SPDX-License-Identifier: Apache-2.0
// Affinities: what a 3-D U-Net learns about an EM volume, one number for each voxel and axis (z, y, x). It is 1 if the voxel
// and its predecessor along the axis belong to the same object.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "floodtide/data/patches.hpp"
#include "floodtide/data/samples.hpp"

namespace floodtide::data {

struct AffinityOptions {
  Vec3 patch_size{16, 128, 128};
  /// What voxels labelled 0 are. False: nobody labelled them (FIB-25), pairs with one are not counted. True: the labels'
  /// membranes or background (synthetic volumes, gala), pairs with one have affinity 0.
  bool zero_is_boundary = false;
  /// In training patches, counted voxels weigh 1 / (2 share) where share is the patch's share of their value (0 or 1) along the
  /// axis, taken to be within [0.05, 0.95], so that both values weigh about alike. Source: gunpowder, BalanceLabels.
  bool balance = false;
  std::vector<int> permutable_axes;   ///< as in ExampleOptions
  std::vector<int> reflectable_axes;  ///< as in ExampleOptions
  /// Random patches of an epoch; if empty, as many as the grid of fixed ones has.
  std::optional<std::int64_t> patches;
  SampleOrderOptions order;
};

/// Affinities of labels, 0 meaning no object, and their weights (1: counted, 0: not): 0 where the predecessor is outside the
/// array and, unless zero_is_boundary, where either voxel is labelled 0.
///
/// @param labels      [z, y, x]
/// @param out_targets [z, y, x, 3] along z, y, x: 1 if the voxel and its predecessor carry the same label other than 0, else 0
/// @param out_weights [z, y, x, 3]
/// Throws Error(shape_mismatch).
void make_affinities(View<const std::int64_t, 3> labels, bool zero_is_boundary, View<float, 4> out_targets,
                     View<float, 4> out_weights);

/// Patches of labelled volumes. Training takes random positions (a function of seed, epoch and number), validation a fixed
/// grid over the boxes in which every voxel is counted at most once: the last patch along an axis ends with the box, and
/// what an earlier one has counted weighs 0.
class AffinitySource final : public SampleSource {
 public:
  /// Throws as Source does (partitions are not read), and Error(invalid_argument) for a patch that does not fit into a box,
  /// axes outside 0..2, permutable axes of unequal size, or a step that takes more patches than an epoch has.
  AffinitySource(const std::vector<SourceOptions>& sources, const AffinityOptions& options);
  ~AffinitySource() override;
  AffinitySource(const AffinitySource&) = delete;
  AffinitySource& operator=(const AffinitySource&) = delete;
  AffinitySource(AffinitySource&&) = delete;
  AffinitySource& operator=(AffinitySource&&) = delete;

  [[nodiscard]] const AffinityOptions& options() const noexcept;
  [[nodiscard]] const SampleFormat& format() const noexcept override;
  [[nodiscard]] const SampleOrder& order() const noexcept override;
  /// Volumes.
  [[nodiscard]] std::int64_t groups() const noexcept override;
  [[nodiscard]] std::string group_name(std::int64_t group) const override;
  /// Patches of the grid.
  [[nodiscard]] std::int64_t fixed_size() const noexcept override;

  /// A patch: its volume and its box there.
  struct Place {
    std::int64_t volume;
    Box box;
  };
  [[nodiscard]] Place fixed_place(std::int64_t number) const;
  /// Before augmentation.
  [[nodiscard]] Place training_place(std::int64_t epoch, std::int64_t number) const;

 private:
  [[nodiscard]] Sample read_fixed(std::int64_t number) const override;
  [[nodiscard]] Sample read_training(std::int64_t epoch, std::int64_t number) const override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::data
