// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::test {

/// Start to count the allocations of the calling thread and of its parallel_for threads: every operator new, and every
/// aligned_alloc (arrays of the library). Other threads, such as the readers of a prefetcher, are not counted.
void start_counting();
/// Stop counting and return the number of allocations.
[[nodiscard]] std::int64_t stop_counting();

}  // namespace floodtide::test
