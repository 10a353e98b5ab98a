// SPDX-License-Identifier: Apache-2.0
// Gradients are summed over ranks while backward still computes the first layers' ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "floodtide/base/parallel.hpp"
#include "floodtide/base/timeline.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

struct ReducerOptions {
  std::int64_t bucket_bytes = 256 * 1024;               ///< least size of a bucket, but for the last
  std::string algorithm = std::string(kAutoAllreduce);  ///< as in AllreduceOptions
  Wire wire = Wire::native;
};

/// A part of the array that is summed in one operation.
struct Bucket {
  std::size_t index;  ///< in the order in which buckets are sent
  std::span<float> values;
  std::span<const std::size_t> parts;  ///< that it holds, ascending
  bool last;                           ///< of the step
};

/// What to do with a bucket instead of an allreduce: leaves the sum over ranks in its values. Called on all ranks for the same
/// buckets in the same order, by the thread that computes; may communicate.
using BucketHook = std::function<void(const Bucket& bucket)>;

/// Sums an array over ranks, bucket by bucket, each as soon as all of its parts are ready. Buckets are neighbouring parts, cut
/// from the array's end, because backward finishes the last layers first; after the first step they are sent in the order in
/// which they became ready on rank 0. The order is the same on all ranks at any time, so nothing is negotiated, and sums
/// depend neither on timing nor on whether anything overlapped. Nothing is copied. A thread of the reducer drives what is under
/// way, so that messages move while the caller computes; it sleeps when there is nothing to do.
class Reducer {
 public:
  /// `parts` cut `values` from its begin to its end without gaps. All references must outlive the reducer; the timeline may be
  /// null. Collective. Throws Error(invalid_argument) for unfit parts, options or an algorithm that does not exist.
  Reducer(Communicator& comm, std::span<float> values, std::vector<Range> parts, const ReducerOptions& options,
          Timeline* timeline);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  Reducer(Reducer&&) = delete;
  Reducer& operator=(Reducer&&) = delete;
  ~Reducer();

  void set_hook(BucketHook hook);

  /// No part is ready; the values may be written.
  void begin(std::int64_t step);
  /// This part is final: it may be sent, and belongs to the reducer until finish() returns.
  void ready(std::size_t part);
  /// Collective: takes the rest as ready and returns when all sums are there; calls the communicator's on_wait meanwhile.
  /// Throws what the operations threw.
  void finish();

  [[nodiscard]] std::size_t buckets() const noexcept;
  /// Seconds that finish() has waited, since the last call: communication that nothing hid.
  [[nodiscard]] double take_exposed_s();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::comm
