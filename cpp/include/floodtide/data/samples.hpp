// SPDX-License-Identifier: Apache-2.0
// Training samples of networks that see one image at a time (U-Net): slices with class masks, patches with affinities.
//
// Epochs follow one another without a break, as one endless row of samples: epoch e is a seeded permutation of its samples,
// and step s takes the next walkers x batch of the row, `batch` of them for each walker. So every step has a full batch,
// nothing is padded or left out, a sample comes once in an epoch, and which sample comes when is a pure function of
// (seed, walkers, batch), whatever the number of ranks. Epoch e + 1 begins in the step in which epoch e ends.
#pragma once

#include <cstdint>
#include <string>

#include "floodtide/data/examples.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// An image with what a network should make of it: either a class or several targets for each voxel.
struct Sample {
  Tensor<float, 4> image;           ///< [z, y, x, 1] normalised; slices have z = 1
  Tensor<std::uint8_t, 3> classes;  ///< [z, y, x], below SampleFormat::outputs; empty if there are targets
  Tensor<float, 4> targets;         ///< [z, y, x, outputs] 0 or 1; empty if there are classes
  Tensor<float, 4> weights;         ///< as targets; 0: not counted
  std::int64_t group = 0;           ///< the patient or volume, below SampleSource::groups()
  Cursor cursor;                    ///< where it stands in its walker's row (load() only)
};

/// What all samples of a source have in common.
struct SampleFormat {
  Vec3 shape{};              ///< of images and targets: (z, y, x)
  std::int64_t outputs = 0;  ///< classes, or targets of a voxel
  bool labelled = true;      ///< samples have classes; otherwise targets and weights
};

struct SampleOrderOptions {
  std::int64_t walkers = 1;
  std::int64_t batch = 1;  ///< samples that a walker takes in one step
  std::uint64_t seed = 0;
};

/// Deals samples to walkers: see the top of this file.
class SampleOrder {
 public:
  /// `size` samples an epoch. Throws Error(invalid_argument) if a step takes none or more than an epoch has; `what` (such as
  /// "slices of liver.h5:image") names the samples in the message.
  SampleOrder(std::int64_t size, const SampleOrderOptions& options, const std::string& what);

  [[nodiscard]] const SampleOrderOptions& options() const noexcept { return options_; }
  /// Samples of an epoch over all walkers.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Samples that a step takes.
  [[nodiscard]] std::int64_t global_batch() const noexcept { return options_.walkers * options_.batch; }
  /// The epoch of the first sample that a step takes.
  [[nodiscard]] std::int64_t epoch(std::int64_t step) const;

  /// A walker's samples in one epoch. At least `batch`; over all walkers they add up to size().
  [[nodiscard]] std::int64_t per_walker(std::int64_t walker, std::int64_t epoch) const;
  /// Which of the epoch's samples, 0 to size() - 1, a cursor means. Throws Error(out_of_range) if there is no such one.
  [[nodiscard]] std::int64_t number(const Cursor& cursor) const;
  [[nodiscard]] Cursor next(const Cursor& cursor) const;
  /// The first of the `batch` samples that a walker takes in a step: all that resuming needs to know.
  [[nodiscard]] Cursor at_step(std::int64_t walker, std::int64_t step) const;

 private:
  /// Samples of the walker among the first `samples` of the endless row.
  [[nodiscard]] std::int64_t taken(std::int64_t walker, std::int64_t samples) const;
  void check(std::int64_t walker, std::int64_t epoch) const;

  std::int64_t size_;
  SampleOrderOptions options_;
};

/// Where samples come from. An interface, because one trainer drives slices and patches alike.
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
  /// Patients or volumes, for scores of each; `group_name` is for people.
  [[nodiscard]] virtual std::int64_t groups() const noexcept = 0;
  [[nodiscard]] virtual std::string group_name(std::int64_t group) const = 0;

  /// The fixed samples that validation takes: fixed_size() of them, with nothing random. Thread-safe.
  /// Throws Error(out_of_range) for another number, and as reading does.
  [[nodiscard]] virtual std::int64_t fixed_size() const noexcept = 0;
  [[nodiscard]] Sample fixed(std::int64_t number) const;

  /// A training sample, augmented by random numbers that depend on (seed, epoch, number) only. Thread-safe.
  [[nodiscard]] Sample load(const Cursor& cursor) const;
  [[nodiscard]] Cursor next(const Cursor& cursor) const { return order().next(cursor); }

 protected:
  [[nodiscard]] virtual Sample read_fixed(std::int64_t number) const = 0;
  [[nodiscard]] virtual Sample read_training(std::int64_t epoch, std::int64_t number) const = 0;
};

/// Reads samples ahead: a walker takes `batch` a step, so depth should be a multiple of it.
using SamplePrefetcher = BasicPrefetcher<SampleSource>;

}  // namespace floodtide::data
