// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::test {

/// Count what the calling thread and its threads of parallel_for allocate from now on: every operator new and every
/// aligned_alloc (the library's arrays). Threads that others have started, such as the readers of a prefetcher, are not
/// counted.
void start_counting();
/// Stop counting and return the number of allocations.
[[nodiscard]] std::int64_t stop_counting();

}  // namespace floodtide::test
