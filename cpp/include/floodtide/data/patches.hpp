// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/data/deformation.hpp"
#include "floodtide/data/volume.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// One image volume with its labels: an entry of [[data.volumes]].
struct SourceOptions {
  std::string name;            ///< names the volume in coordinate files
  VolumeReference image;       ///< intensities
  VolumeReference labels;      ///< integer object ids, 0 = background
  VolumeReference partitions;  ///< uint8 classes from PartitionJob, 255 = no centre; may be empty
  std::optional<Box> box;      ///< patches lie inside this box; empty: the whole volume
  double mean = 0;             ///< intensities become (x - mean) / std
  double std = 1;
};

/// The open volumes of a source. The constructor throws the errors of open_volume(), Error(shape_mismatch) if image, labels and
/// partitions differ in shape, Error(out_of_range) if the box leaves the volume, and Error(invalid_argument) unless std > 0.
class Source {
 public:
  explicit Source(SourceOptions options);

  [[nodiscard]] const SourceOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Volume& image() const noexcept { return *image_; }
  [[nodiscard]] const Volume& labels() const noexcept { return *labels_; }
  /// Return the partition volume. Throws Error(invalid_argument) if the source has none.
  [[nodiscard]] const Volume& partitions() const;
  /// Return the box in which patches lie.
  [[nodiscard]] const Box& box() const noexcept { return box_; }
  /// Read the normalised intensities of a box. Throws the errors of Volume::read_block(). Thread-safe.
  [[nodiscard]] Tensor<float, 3> read_image(const Box& box) const;
  /// Return the box of all centres whose patch (odd size) lies inside the box. Throws Error(invalid_argument) if the patch is
  /// larger.
  [[nodiscard]] Box centres(const Vec3& patch_size) const;

 private:
  SourceOptions options_;
  VolumePtr image_;
  VolumePtr labels_;
  VolumePtr partitions_;  // null if the source has none
  Box box_;
};

/// A training or validation patch.
struct Patch {
  Tensor<float, 3> image;           ///< normalised intensities
  Tensor<std::int64_t, 3> objects;  ///< label of each voxel; 0: background, or no label
};

/// Read the patch of `size` (odd) around `centre`. uint64 labels count as unsigned. Thread-safe. Throws Error(out_of_range) if
/// the patch leaves the volume without a deformation, Error(invalid_file) for unreadable or NaN voxels.
///
/// A deformation keeps the centre in the middle of the patch. Places outside of the source's box count as the nearest place in
/// it, so no voxel outside of the box is learnt.
[[nodiscard]] Patch read_patch(const Source& source, const Vec3& centre, const Vec3& size, const Deformation& deformation = {});
/// Return 1 - softness in voxels with the label of the middle one, else softness. If the middle is background (0), all are
/// softness. Source: google/ffn ffn/training/examples.py and inputs.py (make_labels_contiguous off).
[[nodiscard]] Tensor<float, 3> soft_labels(View<const std::int64_t, 3> objects, double softness);

/// A voxel of a volume, with the index of the volume.
struct Centre {
  std::int64_t volume;
  Vec3 position;
  bool operator==(const Centre&) const = default;
};

/// Return `count` centres from all sources together, divided evenly among the partition classes first_class to last_class that
/// occur. Centres are different; only classes with too few voxels repeat theirs cyclically. The result is a pure function of
/// files, sizes and seed. Reads each partition volume once, in blocks, on all threads. Throws Error(invalid_argument) if no
/// class occurs.
[[nodiscard]] std::vector<Centre> balanced_centres(std::span<const Source> sources, const Vec3& patch_size, int first_class,
                                                   int last_class, std::int64_t count, std::uint64_t seed,
                                                   const Progress& progress = {});

}  // namespace floodtide::data
