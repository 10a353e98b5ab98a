// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/data/volume.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// One image volume with its labels: an entry of [[data.volumes]].
struct SourceOptions {
  std::string name;            ///< names the volume in coordinate files
  VolumeReference image;       ///< intensities
  VolumeReference labels;      ///< integer object ids, 0 = background
  VolumeReference partitions;  ///< uint8 classes from `partition`, 255 = no centre; empty where centres come from elsewhere
  std::optional<Box> box;      ///< patches lie wholly inside; the whole volume if empty
  double mean = 0;             ///< intensities become (x - mean) / std
  double std = 1;
};

/// The opened volumes of a source. Throws as open_volume does, and Error(shape_mismatch) if image, labels and partitions
/// differ in shape, Error(out_of_range) if the box leaves the volume, Error(invalid_argument) if std is not above zero.
class Source {
 public:
  explicit Source(SourceOptions options);

  [[nodiscard]] const SourceOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Volume& image() const noexcept { return *image_; }
  [[nodiscard]] const Volume& labels() const noexcept { return *labels_; }
  /// Throws Error(invalid_argument) if the source has none.
  [[nodiscard]] const Volume& partitions() const;
  [[nodiscard]] const Box& box() const noexcept { return box_; }
  /// Normalised intensities of a box. Thread-safe. Throws as Volume::read_block does.
  [[nodiscard]] Tensor<float, 3> read_image(const Box& box) const;
  /// Object ids of a box, 0 where there is no object (negative ids too, which unsigned ones of 2^63 and more are not).
  /// Thread-safe. Throws as Volume::read_block does.
  [[nodiscard]] Tensor<std::int64_t, 3> read_labels(const Box& box) const;
  /// The centres whose patch (odd sizes) lies inside the box. Throws Error(invalid_argument) if the patch is larger.
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
  Tensor<float, 3> image;   ///< normalised intensities
  Tensor<float, 3> labels;  ///< probability of the object at the centre: `on` inside, `off` outside
};

/// Reads the patch of `size` (odd) around `centre`: labels are `on` where they are above 0 and equal to the one at the centre
/// (so that a background centre gives `off` everywhere), else `off`. uint64 labels count as unsigned.
/// Thread-safe. Throws Error(out_of_range) if the patch leaves the volume, Error(invalid_file) for unreadable or NaN voxels.
/// Source: google/ffn ffn/training/examples.py and inputs.py (make_labels_contiguous off).
[[nodiscard]] Patch read_patch(const Source& source, const Vec3& centre, const Vec3& size, float on, float off);

/// A voxel of a volume, by the volume's number.
struct Centre {
  std::int64_t volume;
  Vec3 position;
  bool operator==(const Centre&) const = default;
};

/// `count` distinct centres (repeated cyclically in classes that have fewer) spread evenly over the partition classes
/// first_class to last_class that occur at all, from all sources pooled; a pure function of the files, the sizes and the seed.
/// Reads each partition volume once, in blocks, on all threads. Throws Error(invalid_argument) if no class occurs.
[[nodiscard]] std::vector<Centre> balanced_centres(std::span<const Source> sources, const Vec3& patch_size, int first_class,
                                                   int last_class, std::int64_t count, std::uint64_t seed,
                                                   const Progress& progress = {});

}  // namespace floodtide::data
