// SPDX-License-Identifier: Apache-2.0
// Sums gradients over ranks while the backward pass still computes the gradients of the first layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/timeline.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

struct ReducerOptions {
  std::int64_t bucket_bytes = 256 * 1024;                  ///< smallest size of a bucket; the last bucket may be smaller
  std::string algorithm = std::string(kDefaultAllreduce);  ///< as in AllreduceOptions
  Wire wire = Wire::native;
  std::size_t exact_parts = 0;  ///< number of first parts that `wire` must not round, such as counts
};

/// Return the buckets of an array with these parts: for each bucket, the indices of its parts, ascending. A bucket is a range
/// of neighbouring parts and holds at least `bucket_bytes` bytes, except the last one. The first bucket is the end of the
/// array. Throws Error(invalid_argument) if `bucket_bytes` is smaller than a value.
[[nodiscard]] std::vector<std::vector<std::size_t>> cut_buckets(std::span<const Range> parts, std::int64_t bucket_bytes);

/// A range of the array that one operation sums.
struct Bucket {
  std::size_t index;  ///< place in the order in which buckets are sent
  std::span<float> values;
  std::span<const std::size_t> parts;  ///< indices of the parts in this bucket, ascending
  bool last;                           ///< true: the last bucket of the step
};

/// Function that replaces the allreduce of a bucket. It must leave the sum over all ranks in bucket.values. It is called on all
/// ranks for the same buckets in the same order, on the thread that calls ready() or finish(). It may communicate.
using BucketHook = std::function<void(const Bucket& bucket)>;

/// Sums an array over ranks in buckets. The sum of a bucket starts when all parts of the bucket are ready.
///
/// A bucket is a range of neighbouring parts. Buckets are cut from the end of the array, because the backward pass finishes the
/// last layers first. In the first step they are sent in this order, and later in the order in which they became ready on
/// rank 0. All ranks use the same order. The sums do not depend on timing.
///
/// The values are summed in place. A thread of the reducer drives the operations while the caller computes.
class Reducer : Immovable {
 public:
  /// `parts` are ranges that cover `values` from its begin to its end without gaps. Collective.
  ///
  /// `comm`, `values` and `timeline` must outlive the reducer; `timeline` may be null. Throws Error(invalid_argument) for wrong
  /// parts or options, or an unknown algorithm.
  Reducer(Communicator& comm, std::span<float> values, std::vector<Range> parts, const ReducerOptions& options,
          Timeline* timeline);
  ~Reducer();

  /// Replace the allreduce of every bucket by `hook`. Call this on all ranks.
  void set_hook(BucketHook hook);

  /// Start a new step. No part is ready after this call, and the caller may overwrite the values.
  void begin(std::int64_t step);
  /// Declare that the values of a part are complete. The caller must not touch this part until finish() has returned.
  void ready(std::size_t part);
  /// Declare all other parts ready, and wait until all sums are complete. Collective.
  ///
  /// Calls the communicator's on_wait meanwhile. Throws what the operations throw.
  void finish();

  [[nodiscard]] std::size_t buckets() const noexcept;
  /// Return the seconds that finish() has waited since the last call of this function. This communication did not overlap with
  /// computation.
  [[nodiscard]] double take_exposed_s();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::comm
