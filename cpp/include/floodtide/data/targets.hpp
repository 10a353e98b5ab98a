// SPDX-License-Identifier: Apache-2.0
// What a network learns of labels. Each task of a configuration has one class here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/data/samples.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Makes the truth of a sample from its labels. Objects of several tasks may be used by several threads.
class Targets : Immovable {
 public:
  virtual ~Targets() = default;

  /// Return the number of outputs of a voxel.
  [[nodiscard]] virtual std::int64_t outputs() const noexcept = 0;
  /// Return the first output whose targets are any number in [0, 1]; those before are 0 or 1. outputs() without such.
  [[nodiscard]] virtual std::int64_t soft_from() const noexcept { return outputs(); }
  /// Return true if labels are classes, of which each voxel has one.
  [[nodiscard]] virtual bool classes() const noexcept { return false; }
  /// Return the voxels around a patch (z, y, x) whose labels the targets depend on, for training or for validation.
  [[nodiscard]] virtual Vec3 margin(bool /*training*/) const noexcept { return {0, 0, 0}; }
  /// Return where the other voxel lies whose label an output depends on; 0: an output of single voxels.
  [[nodiscard]] virtual Vec3 offset(std::int64_t /*output*/) const noexcept { return {0, 0, 0}; }
  /// Throws Error(invalid_argument) if patches of this size have no targets.
  virtual void check(const Vec3& /*patch_size*/) const {}

  /// Make the classes, or the targets and weights, of a sample.
  ///
  /// @param labels   [z, y, x] with the margin on both sides; kNoLabel: not known
  /// @param training true where targets may weigh differently in a loss
  void make(View<const std::int64_t, 3> labels, bool training, Sample& out_sample) const;

 private:
  /// Fill arrays that have the shape of the patch already.
  virtual void fill(View<const std::int64_t, 3> labels, bool training, Sample& out_sample) const = 0;
};

/// The class of each voxel: labels 0 to count - 1. Throws Error(invalid_argument) unless there are 2 to 255.
[[nodiscard]] std::unique_ptr<Targets> class_targets(std::int64_t count);

struct AffinityTargets {
  std::vector<Vec3> offsets{{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}};  ///< (z, y, x); by default the predecessors along each axis
  /// Balance the values 0 and 1 in training patches: the weight of a voxel is 1 / (2 share), with the share of its value in the
  /// patch for the offset, clipped to [0.05, 0.95]. Both values then have about equal total weight. Source: gunpowder,
  /// BalanceLabels.
  bool balance = false;
  /// Standard deviation (z, y, x) in voxels of the window of local shape descriptors, which are ten more outputs; 0: none.
  std::array<double, 3> descriptors{};
};
/// Affinities: 1 if the voxel and the voxel at the offset have the same label other than 0, else 0. The weight is 0 if one of
/// the two has no label or, in training, lies outside the patch. Local shape descriptors follow, as shape_descriptors() has
/// them, with weight 1 in objects. Throws Error(invalid_argument) for no offsets or an offset of 0.
[[nodiscard]] std::unique_ptr<Targets> affinity_targets(const AffinityTargets& options);

/// The distance d of a voxel of an object to the nearest voxel that is not of the object, as 1/2 + tanh(d / scale) / 2, and of
/// a voxel of label 0 to the nearest object, with -d. The weight is 0 where a voxel without a label is nearer than that, and
/// nearer than twice the scale: the distance is not known there. From twice the scale on, the target is nearly 0 or 1.
///
/// @param scale      distance in the unit of voxel_size at which the target is 0.88
/// @param voxel_size edges (z, y, x) of a voxel
[[nodiscard]] std::unique_ptr<Targets> distance_targets(double scale, const std::array<double, 3>& voxel_size);

/// Compute local shape descriptors: statistics of the coordinates of a voxel's object in a Gaussian window around the voxel.
/// Ten channels in [0, 1], and 0 outside of objects (labels 0 and less): 0 to 2 offset of the mean / deviation, 3 to 5
/// variance / deviation^2, 6 to 8 correlation of (z, y), (z, x), (y, x), 9 share of the window that the object fills. Offsets
/// and correlations are halved and 1/2 is added. Source: Sheridan et al., "Local shape descriptors for neuron segmentation",
/// Nature Methods 2023.
///
/// @param labels    [z, y, x]
/// @param part      the voxels whose descriptors are computed; inside `labels`
/// @param deviation of the window (z, y, x) in voxels, cut off at three of them
[[nodiscard]] Tensor<float, 4> shape_descriptors(View<const std::int64_t, 3> labels, const Box& part,
                                                 const std::array<double, 3>& deviation);

}  // namespace floodtide::data
