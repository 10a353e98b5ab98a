// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::test {

/// Start to count the allocations of the calling thread and of its parallel_for threads: every operator new, and every
/// aligned_alloc (arrays of the library). Other threads, such as the readers of a prefetcher, are not counted.
void start_counting();
/// Stop counting and return the number of allocations.
[[nodiscard]] std::int64_t stop_counting();

/// While this object exists, allocations number `first`, `first` + 1, ..., in total `count`, fail on all threads together that
/// are not spared. Every operator new and every aligned_alloc counts.
class FailingAllocations {
 public:
  FailingAllocations(std::int64_t first, std::int64_t count);
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
  FailingAllocations(FailingAllocations&&) = delete;
  FailingAllocations& operator=(FailingAllocations&&) = delete;
  ~FailingAllocations();
  /// True if an allocation has failed since the newest object was made.
  [[nodiscard]] static bool have_failed();
};

/// Let no allocation of the calling thread fail, or let them fail again.
void spare_this_thread(bool spared);

}  // namespace floodtide::test
