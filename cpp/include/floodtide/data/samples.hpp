// SPDX-License-Identifier: Apache-2.0
// Training samples of networks that see one image at a time: patches with classes, or with targets.
//
// Epochs follow one another without a gap, as one endless sequence of samples. Epoch e is a seeded permutation of all samples.
// Each step takes the next walkers x batch samples of the sequence, `batch` for each walker. Every step therefore has a full
// batch, and no sample is padded or left out. A sample occurs once in an epoch. The order is a pure function of (seed, walkers,
// batch), and does not depend on the number of ranks. Epoch e + 1 begins in the step in which epoch e ends.
#pragma once

#include <cstdint>
#include <string>

#include "floodtide/data/examples.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Class of voxels without a label: they count neither in the loss nor in the scores.
inline constexpr std::uint8_t kUnlabelled = 255;

/// An image with its truth: for each voxel either a class or several targets.
struct Sample {
  Tensor<float, 4> image;           ///< [z, y, x, channels] normalised
  Tensor<std::uint8_t, 3> classes;  ///< [z, y, x], below SampleFormat::outputs; empty if there are targets
  Tensor<float, 4> targets;         ///< [z, y, x, outputs] in [0, 1]; empty if there are classes
  Tensor<float, 4> weights;         ///< shape of the targets; 0: the loss ignores the target
  std::int64_t group = 0;           ///< index of the patient or volume, below SampleSource::groups()
  Cursor cursor;                    ///< its position in the sequence of its walker; set by load() only
};

/// Properties that all samples of a source share.
struct SampleFormat {
  Vec3 shape{};              ///< size (z, y, x) of images and targets
  std::int64_t outputs = 0;  ///< number of classes, or of targets of a voxel
  bool labelled = true;      ///< samples have classes; otherwise targets and weights
  /// Targets before this one are 0 or 1, those from it on are any number in [0, 1]. Equal to `outputs` without such.
  std::int64_t soft_from = 0;
  std::int64_t channels = 1;  ///< of the image
};

struct SampleOrderOptions {
  std::int64_t walkers = 1;
  std::int64_t batch = 1;  ///< samples of a walker in one step
  std::uint64_t seed = 0;
};

/// Order in which samples are dealt to walkers; see the top of this file.
class SampleOrder {
 public:
  /// @param size number of samples of an epoch
  /// @param what names the samples in messages: "patches of an epoch"
  /// Throws Error(invalid_argument) if a step takes no sample, or more samples than an epoch has.
  SampleOrder(std::int64_t size, const SampleOrderOptions& options, const std::string& what);

  [[nodiscard]] const SampleOrderOptions& options() const noexcept { return options_; }
  /// Return the number of samples of an epoch, over all walkers.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Return the number of samples of a step, over all walkers.
  [[nodiscard]] std::int64_t global_batch() const noexcept { return options_.walkers * options_.batch; }
  /// Return the epoch of the first sample of a step.
  [[nodiscard]] std::int64_t epoch(std::int64_t step) const;

  /// Return the number of samples of a walker in one epoch: at least `batch`. The sum over all walkers is size().
  [[nodiscard]] std::int64_t per_walker(std::int64_t walker, std::int64_t epoch) const;
  /// Return the number of a sample in its epoch, 0 to size() - 1. Throws Error(out_of_range) if the sample does not exist.
  [[nodiscard]] std::int64_t number(const Cursor& cursor) const;
  [[nodiscard]] Cursor next(const Cursor& cursor) const;
  /// Return the cursor of the first sample of a walker in a step. A run resumes from this cursor.
  [[nodiscard]] Cursor at_step(std::int64_t walker, std::int64_t step) const;

 private:
  /// Return how many of the first `samples` samples of the sequence belong to the walker.
  [[nodiscard]] std::int64_t taken(std::int64_t walker, std::int64_t samples) const;
  void check(std::int64_t walker, std::int64_t epoch) const;

  std::int64_t size_;
  SampleOrderOptions options_;
};

/// Interface of sources of samples.
class SampleSource {
 public:
  SampleSource() = default;
  virtual ~SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;
  SampleSource(SampleSource&&) = delete;
  SampleSource& operator=(SampleSource&&) = delete;

  [[nodiscard]] virtual const SampleFormat& format() const noexcept = 0;
  [[nodiscard]] virtual const SampleOrder& order() const noexcept = 0;
  /// Return the number of patients or volumes. Scores are computed for each; group_name() returns the name for messages.
  [[nodiscard]] virtual std::int64_t groups() const noexcept = 0;
  [[nodiscard]] virtual std::string group_name(std::int64_t group) const = 0;

  /// Return the number of validation samples, which have nothing random. fixed(number) reads one of them, and throws
  /// Error(out_of_range) for another number, and the errors of reading. Thread-safe.
  [[nodiscard]] virtual std::int64_t fixed_size() const noexcept = 0;
  [[nodiscard]] Sample fixed(std::int64_t number) const;

  /// Read a training sample. Its augmentation is random, and depends on (seed, epoch, number) only. Thread-safe.
  [[nodiscard]] Sample load(const Cursor& cursor) const;
  [[nodiscard]] Cursor next(const Cursor& cursor) const { return order().next(cursor); }

 protected:
  [[nodiscard]] virtual Sample read_fixed(std::int64_t number) const = 0;
  [[nodiscard]] virtual Sample read_training(std::int64_t epoch, std::int64_t number) const = 0;
};

/// Reads samples in advance. The depth should be a multiple of `batch`, because a walker takes `batch` samples in a step.
using SamplePrefetcher = BasicPrefetcher<SampleSource>;

}  // namespace floodtide::data
