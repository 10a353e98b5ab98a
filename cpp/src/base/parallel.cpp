// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/parallel.hpp"

#include <omp.h>

#include <exception>
#include <mutex>

#include "floodtide/base/error.hpp"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#define FLOODTIDE_NO_THREAD_SANITIZER __attribute__((no_sanitize_thread))
#else
#define FLOODTIDE_NO_THREAD_SANITIZER
#endif

namespace floodtide {
namespace {

/// Tells the thread sanitizer, which does not see how libgomp's threads start and end, that what came before release() is
/// known to who comes from acquire().
class HappensBefore {
 public:
#if defined(__SANITIZE_THREAD__)
  void release() { __tsan_release(this); }
  void acquire() { __tsan_acquire(this); }
#else
  void release() {}
  void acquire() {}
#endif
};

}  // namespace

void set_num_threads(int count) {
  FLOODTIDE_REQUIRE(count >= 1, invalid_argument, "threads: ", count, " given, expected at least 1");
  omp_set_num_threads(count);
}

int num_threads() { return omp_in_parallel() != 0 ? 1 : omp_get_max_threads(); }

int worker_index() { return omp_get_thread_num(); }

int available_cores() { return omp_get_num_procs(); }

namespace detail {

// What the region shares is handed to its threads before they can say so, and is not looked at here; chunks are.
FLOODTIDE_NO_THREAD_SANITIZER void parallel_chunks(std::int64_t chunks, ChunkFunction function, void* context) {
  std::exception_ptr failure;
  std::mutex mutex;
  HappensBefore start, end;
  start.release();
#pragma omp parallel if (chunks > 1)
  {
    start.acquire();
#pragma omp for schedule(dynamic, 1) nowait
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      try {
        function(context, chunk);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
    end.release();
  }
  end.acquire();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace detail
}  // namespace floodtide
