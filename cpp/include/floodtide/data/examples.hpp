// SPDX-License-Identifier: Apache-2.0
// Which training example comes when, and reading it.
//
// The index space [0, examples()) holds every class of the partition volumes equally often, as google/ffn's coordinate lists
// do: (class, j) with j up to the largest class, the voxels of smaller classes repeating cyclically. No list is kept: a
// histogram of classes for each block finds the k-th voxel of a class. In every epoch the classes are shuffled anew and dealt
// out to the walkers evenly (data/deal.hpp). So an example is a pure function of (files, options, walkers, cursor), whatever
// the number of ranks, over all walkers an epoch is disjoint and complete, and no walker keeps its examples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "floodtide/base/limits.hpp"
#include "floodtide/base/progress.hpp"
#include "floodtide/data/patches.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

struct ExampleOptions {
  Vec3 patch_size{49, 49, 49};  ///< odd
  std::uint64_t seed = 0;
  std::int64_t walkers = 1;
  std::vector<int> permutable_axes;   ///< axes (0 = z) that one random permutation shuffles; equal patch sizes
  std::vector<int> reflectable_axes;  ///< axes that are each reversed with probability one half
  double label_on = 0.95;
  double label_off = 0.05;
  /// A file written by `coordinates`, used instead of the partition volumes; its rows are dealt as one class.
  std::optional<std::string> coordinates;
};

/// A position in one walker's stream: example number `index` of its shard in `epoch`.
struct Cursor {
  std::int64_t walker = 0;
  std::int64_t epoch = 0;
  std::int64_t index = 0;
  bool operator==(const Cursor&) const = default;
};

struct Example {
  Tensor<float, 3> image;    ///< normalised, augmented
  Tensor<float, 3> labels;   ///< soft, augmented as the image
  Tensor<float, 3> weights;  ///< empty: every voxel counts alike
  Centre centre;             ///< where it was cut out, before augmentation
  Cursor cursor;             ///< where it stands in its walker's stream
};

class ExampleSource {
 public:
  /// Opens and checks all files and counts classes (streamed, on all threads). Throws as Source does, and:
  /// Error(invalid_argument) for a patch larger than a box or of even size, axes outside 0..2, permutable axes of unequal
  /// size, no valid centre, or more walkers than examples; Error(invalid_file) or Error(out_of_range) for a coordinates file
  /// that names unknown volumes or has centres whose patch leaves its box.
  ExampleSource(const std::vector<SourceOptions>& sources, const ExampleOptions& options, const Progress& progress = {});
  ~ExampleSource();
  ExampleSource(ExampleSource&&) noexcept;
  ExampleSource& operator=(ExampleSource&&) noexcept;
  ExampleSource(const ExampleSource&) = delete;
  ExampleSource& operator=(const ExampleSource&) = delete;

  [[nodiscard]] const ExampleOptions& options() const noexcept;
  [[nodiscard]] const std::vector<Source>& sources() const noexcept;
  /// Size of the index space: the length of one epoch over all walkers.
  [[nodiscard]] std::int64_t examples() const noexcept;
  /// Examples of one walker in every epoch.
  [[nodiscard]] std::int64_t per_walker(std::int64_t walker) const;
  /// Expected fields of view of the walker that has most in an epoch over the mean of all walkers, minus 1. `moves` at most are
  /// made on an example; those of class i of n are taken to need 1 + (moves - 1) i / (n - 1), which a trained network confirms
  /// (docs/algorithms.md). Nothing for a coordinates file, which does not tell classes.
  [[nodiscard]] std::optional<double> imbalance(std::int64_t moves) const;

  /// The voxel that position `index` of a walker's epoch stands for. Thread-safe; reads a block of partitions.
  [[nodiscard]] Centre centre(const Cursor& cursor) const;
  /// The example itself. Thread-safe.
  [[nodiscard]] Example load(const Cursor& cursor) const;
  /// The cursor after this one: the next epoch begins where the shard ends.
  [[nodiscard]] Cursor next(const Cursor& cursor) const;
  /// For benchmarks: from now on every load() begins with so many seconds of sleep, as if the files were far away.
  void set_load_delay(double seconds) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr Limits kPrefetch{0, 1024};  ///< items read ahead for each slot
inline constexpr Limits kReaders{1, 1024};   ///< threads

/// Reads ahead on threads of its own, so that a training step does not wait for files. `Stream` is ExampleSource or
/// SampleSource: what has load(cursor) and next(cursor).
template <class Stream>
class BasicPrefetcher {
 public:
  using Item = decltype(std::declval<const Stream&>().load(Cursor{}));

  /// One slot for each cursor, the first item that it delivers; `depth` items are read ahead for each slot, `readers` of them
  /// at a time over all slots. Depth 0 reads an item when it is asked for. `source` must outlive the prefetcher. Throws
  /// Error(invalid_argument) for a depth outside of kPrefetch or readers outside of kReaders, Error(out_of_range) for a walker
  /// that does not exist, std::system_error for a thread that the system does not give.
  BasicPrefetcher(const Stream& source, std::vector<Cursor> cursors, int depth, int readers);
  /// Stops every reader after the item it is reading.
  ~BasicPrefetcher();
  BasicPrefetcher(BasicPrefetcher&&) = delete;
  BasicPrefetcher& operator=(BasicPrefetcher&&) = delete;
  BasicPrefetcher(const BasicPrefetcher&) = delete;
  BasicPrefetcher& operator=(const BasicPrefetcher&) = delete;

  /// The next item of a slot, in the order of its cursors; waits for it. Rethrows what reading it threw, every time it is asked
  /// for.
  [[nodiscard]] Item next(std::int64_t slot);
  /// The cursor of the item that next(slot) will return: what a checkpoint stores.
  [[nodiscard]] Cursor cursor(std::int64_t slot) const;
  /// Seconds that next() has waited in all.
  [[nodiscard]] double wait_s() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

using Prefetcher = BasicPrefetcher<ExampleSource>;

}  // namespace floodtide::data
