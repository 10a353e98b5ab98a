// SPDX-License-Identifier: Apache-2.0
// Order of the training examples, and reading them.
//
// An epoch holds examples() examples. Every class of the partition volumes occurs equally often, as in google/ffn's coordinate
// lists: as often as the largest class has voxels. The voxels of smaller classes repeat cyclically. No list is stored: a
// histogram of classes for each block finds the k-th voxel of a class. In every epoch the classes are shuffled anew and dealt
// to the walkers evenly (data/deal.hpp). An example is therefore a pure function of (files, options, walkers, cursor). It does
// not depend on the number of ranks. Over all walkers, an epoch has each example once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/base/progress.hpp"
#include "floodtide/data/augmentation.hpp"
#include "floodtide/data/patches.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

class ClassIndex;
struct Deal;

struct ExampleOptions {
  Vec3 patch_size{49, 49, 49};  ///< odd
  std::uint64_t seed = 0;
  std::int64_t walkers = 1;
  Augmentation augmentation;
  double softness = 0.05;  ///< see soft_labels
};

/// Position in the stream of a walker: example number `index` of its shard in `epoch`.
struct Cursor {
  std::int64_t walker = 0;
  std::int64_t epoch = 0;
  std::int64_t index = 0;
  bool operator==(const Cursor&) const = default;
};

struct Example {
  Tensor<float, 3> image;   ///< normalised, augmented
  Tensor<float, 3> labels;  ///< soft, augmented as the image
  Centre centre;            ///< centre of the patch, before augmentation
  Cursor cursor;            ///< its position in the stream of its walker
};

class ExampleSource : Immovable {
 public:
  /// Opens and checks all files, and counts classes block by block on all threads.
  ///
  /// Throws the errors of Source and require_valid(). Throws Error(invalid_argument) for a patch larger than a box or of even
  /// size, no valid centre, or more walkers than examples.
  ExampleSource(const std::vector<SourceOptions>& sources, const ExampleOptions& options, const Progress& progress = {});
  ~ExampleSource();

  [[nodiscard]] const std::vector<Source>& sources() const noexcept { return sources_; }
  /// Return the number of examples of an epoch, over all walkers.
  [[nodiscard]] std::int64_t examples() const noexcept;
  /// Return the number of examples of one walker in every epoch.
  [[nodiscard]] std::int64_t per_walker(std::int64_t walker) const;

  /// Return the centre of an example. Reads a block of partitions. Thread-safe.
  [[nodiscard]] Centre centre(const Cursor& cursor) const;
  /// Read an example. Thread-safe.
  [[nodiscard]] Example load(const Cursor& cursor) const;
  /// Return the next cursor. After the end of the shard, the next epoch begins.
  [[nodiscard]] Cursor next(const Cursor& cursor) const;
  /// For benchmarks: from now on, sleep for `seconds` before every load().
  void set_load_delay(double seconds) noexcept { load_delay_s_ = seconds; }

 private:
  ExampleOptions options_;
  std::vector<Source> sources_;
  std::unique_ptr<const ClassIndex> index_;
  std::unique_ptr<const Deal> deal_;
  std::atomic<double> load_delay_s_ = 0;
};

inline constexpr Limits kPrefetch{0, 1024};  ///< items that are read in advance, for each slot
inline constexpr Limits kReaders{1, 1024};   ///< threads

/// Reads items in advance on separate threads, so that training steps do not wait for files. `Stream` has load(cursor) and
/// next(cursor): ExampleSource or PatchSource.
template <class Stream>
class BasicPrefetcher : Immovable {
 public:
  using Item = decltype(std::declval<const Stream&>().load(Cursor{}));

  /// Makes one slot for each cursor, which is the first item of the slot. `source` must outlive the prefetcher.
  ///
  /// @param depth   items that are read in advance for each slot; 0: next() reads the item itself
  /// @param readers number of items that are read at the same time, over all slots
  /// Throws Error(invalid_argument) for a depth outside kPrefetch or readers outside kReaders, Error(out_of_range) for a walker
  /// that does not exist, and std::system_error if the system refuses a thread.
  BasicPrefetcher(const Stream& source, std::vector<Cursor> cursors, int depth, int readers);
  /// Stops every reader after its current item.
  ~BasicPrefetcher();

  /// Wait for the next item of a slot, and return it. If reading the item failed, every call throws the error again.
  [[nodiscard]] Item next(std::int64_t slot);
  /// Return the cursor of the next item of a slot. Checkpoints store this cursor.
  [[nodiscard]] Cursor cursor(std::int64_t slot) const;
  /// Return the total time in seconds that next() has waited.
  [[nodiscard]] double wait_s() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

using Prefetcher = BasicPrefetcher<ExampleSource>;

}  // namespace floodtide::data
