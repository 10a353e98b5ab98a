// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/parallel.hpp"

#include <omp.h>

#include <exception>
#include <mutex>

#include "floodtide/base/error.hpp"

namespace floodtide {

void set_num_threads(int count) {
  FLOODTIDE_REQUIRE(count >= 1, invalid_argument, "threads: ", count, " given, expected at least 1");
  omp_set_num_threads(count);
}

int num_threads() { return omp_in_parallel() != 0 ? 1 : omp_get_max_threads(); }

int worker_index() { return omp_get_thread_num(); }

int available_cores() { return omp_get_num_procs(); }

namespace detail {

void parallel_chunks(std::int64_t chunks, ChunkFunction function, void* context) {
  std::exception_ptr failure;
  std::mutex mutex;
#pragma omp parallel for schedule(dynamic, 1) if (chunks > 1)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    try {
      function(context, chunk);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace detail
}  // namespace floodtide
