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
  Tensor<std::uint8_t, 3> classes;  ///< [z, y, x], below Targets::outputs(); empty if there are targets
  Tensor<float, 4> targets;         ///< [z, y, x, outputs] in [0, 1]; empty if there are classes
  Tensor<float, 4> weights;         ///< shape of the targets; 0: the loss ignores the target
  std::int64_t group = 0;           ///< index of the patient or volume, in PatchSource::groups()
  Cursor cursor;                    ///< its position in the sequence of its walker; set by load() only
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

}  // namespace floodtide::data
