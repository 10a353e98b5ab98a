// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/progress.hpp"
#include "floodtide/data/augmentation.hpp"
#include "floodtide/data/labels.hpp"
#include "floodtide/data/samples.hpp"
#include "floodtide/data/targets.hpp"
#include "floodtide/data/volume.hpp"

namespace floodtide::data {

/// An image with its labels: a volume, or a stack of sections.
struct LabelledImage {
  struct Channel {
    VolumeReference image;  ///< intensities
    double mean = 0;        ///< intensities become (value - mean) / std
    double std = 1;
  };
  std::string name;               ///< for messages
  std::vector<Channel> channels;  ///< of equal shape
  std::vector<Labels::Part> labels;
  Vec3 labels_start{};  ///< place of the first voxel of the labels in the image
};

/// A box of an image whose labels are learnt, or scored.
struct Region {
  std::int64_t image = 0;
  Box box;
  std::int64_t group = 0;
};

struct PatchOptions {
  Vec3 patch{1, 256, 256};
  /// Every section of the regions is one sample, which the patch (one section) holds in its middle: cut off if it is larger.
  /// Outside of the image lies the mean of each channel; other patches repeat the edge of the image.
  bool whole = false;
  /// How often training patches are drawn for a voxel of each class; empty: each labelled voxel is equally likely.
  std::vector<double> class_weights;
  /// Number of training patches of an epoch; empty: as many as the windows of validation.
  std::optional<std::int64_t> patches;
  Augmentation augmentation;
  SampleOrderOptions order;
};

/// Patches of images with labels. Each training patch is drawn for a random voxel with a label, so that every labelled voxel is
/// equally likely, and lies around it at random: inside its region if that is large enough, else inside the image. It is a
/// function of seed, epoch and number. Validation takes windows that overlap by a quarter of the patch; each labelled voxel
/// counts in one of them, in whose middle it lies. A pair of voxels (an affinity) counts once, too, in the window in whose
/// middle its middle lies, so that a window shows both voxels of all pairs up to a quarter of its size apart. Voxels outside of
/// the regions have no label.
class PatchSource : Immovable {
 public:
  /// Opens all volumes, reads all labels of the regions once, and counts them.
  ///
  /// Throws the errors of open_volume() and Labels, Error(shape_mismatch) for channels that differ in shape, and
  /// Error(invalid_argument) for a region outside of its image or without a label, a patch larger than an image, patches
  /// without targets, options outside their ranges, or a step that takes more samples than an epoch has.
  ///
  /// @param groups  names of the groups
  PatchSource(std::vector<LabelledImage> images, std::vector<Region> regions, std::vector<std::string> groups,
              std::shared_ptr<const Targets> targets, const PatchOptions& options, const Progress& progress = {});
  ~PatchSource();

  [[nodiscard]] const PatchOptions& options() const noexcept;
  [[nodiscard]] const Targets& targets() const noexcept;
  /// Return the number of channels of an image.
  [[nodiscard]] std::int64_t channels() const noexcept;
  [[nodiscard]] const SampleOrder& order() const noexcept;
  /// Return the names of the patients or volumes. Scores are computed for each.
  [[nodiscard]] const std::vector<std::string>& groups() const noexcept;
  /// Return the number of labelled voxels of the regions: of each class, or of all objects together.
  [[nodiscard]] std::vector<std::int64_t> label_counts() const;

  /// Return the number of validation samples, which have nothing random: of windows, or of sections with `whole`.
  [[nodiscard]] std::int64_t fixed_size() const noexcept;
  /// Read a validation sample. Throws Error(out_of_range) if there is none of this number, and the errors of reading.
  /// Thread-safe.
  [[nodiscard]] Sample fixed(std::int64_t number) const;
  /// Read a training sample. Its augmentation is random, and depends on (seed, epoch, number) only. Thread-safe.
  [[nodiscard]] Sample load(const Cursor& cursor) const;
  [[nodiscard]] Cursor next(const Cursor& cursor) const { return order().next(cursor); }

  /// Return the place of a patch, before augmentation. Its box may reach beyond the image with `whole`.
  [[nodiscard]] Region fixed_place(std::int64_t number) const;
  [[nodiscard]] Region training_place(std::int64_t epoch, std::int64_t number) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads samples in advance. The depth should be a multiple of `batch`, because a walker takes `batch` samples in a step.
using SamplePrefetcher = BasicPrefetcher<PatchSource>;

}  // namespace floodtide::data
