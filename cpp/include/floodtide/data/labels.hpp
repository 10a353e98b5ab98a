// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "floodtide/data/volume.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Label of voxels without a label: they count neither in a loss nor in a score.
inline constexpr std::int64_t kNoLabel = -1;
/// Chunk cache of each volume that patches are read from: patches come in random order, volumes may be many.
inline constexpr std::size_t kPatchCacheBytes = std::size_t{4} << 20;
/// Return true for the label of an object. uint64 labels of 2^63 and more are negative numbers here.
[[nodiscard]] constexpr bool is_object(std::int64_t label) noexcept { return label != 0 && label != kNoLabel; }

/// Return true if a value that Volume::read_block() has read means "no label" by itself: negative numbers, 2^32 - 1, and
/// 2^64 - 3 to 2^64 - 1, which are -1 of 32 bits and -3 to -1 of 64 bits without a sign. data/no_label.py says the same.
[[nodiscard]] bool means_no_label(std::int64_t value, ElementType type) noexcept;
/// Throws Error(shape_mismatch) unless a volume has the shape of the first one.
void require_same_shape(const Volume& volume, const Volume& first);
/// Read labels of objects, with 0 in voxels without a label. Throws the errors of Volume::read_block(). Thread-safe.
[[nodiscard]] Tensor<std::int64_t, 3> read_objects(const Volume& labels, const Box& box);

/// What the stored values of a volume of labels mean. Values of means_no_label() without a pair have no label.
struct LabelMap {
  /// Pairs of a stored value and its label (or kNoLabel), with different values.
  std::vector<std::pair<std::int64_t, std::int64_t>> values;
  /// Label of values without a pair; kKeep: they are their own labels; kRefuse: they are errors.
  std::int64_t others = kKeep;
  static constexpr std::int64_t kKeep = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kRefuse = kKeep + 1;
};

/// The labels of an image: one volume, or several masks of which at most one may be other than 0 at each voxel.
class Labels {
 public:
  struct Part {
    VolumeReference volume;
    LabelMap map;
  };
  /// Opens the volumes.
  ///
  /// @param start place of the first voxel of the labels in the image
  /// Throws the errors of open_volume(), Error(shape_mismatch) if the parts differ in shape, and Error(invalid_argument) for a
  /// value with two labels.
  Labels(std::vector<Part> parts, const Vec3& start);

  /// Return the box of the image that has labels.
  [[nodiscard]] const Box& box() const noexcept { return box_; }
  /// Return the name of the first volume, for messages.
  [[nodiscard]] const std::string& name() const noexcept { return volumes_.front()->name(); }
  /// Read the labels of a box of the image. Voxels outside of box() or of `region` have kNoLabel. Throws the errors of
  /// Volume::read_block(), and Error(invalid_file) for a value without a label and for masks that overlap; the message names
  /// value and voxel. Thread-safe.
  [[nodiscard]] Tensor<std::int64_t, 3> read(const Box& box, const Box& region) const;

 private:
  [[nodiscard]] Tensor<std::int64_t, 3> read_part(std::size_t part, const Box& stored) const;

  std::vector<Part> parts_;  ///< `values` sorted
  std::vector<VolumePtr> volumes_;
  Box box_;
};

}  // namespace floodtide::data
