// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/parallel.hpp"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <latch>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

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

/// Tries whether the system allows this number of threads and an eighth more, and ends them again. libgomp ends the process if
/// the system refuses a thread.
void require_threads(int count) {
  const int tried = count + count / 8;
  std::latch all_started(1);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  std::string refusal;
  try {
    while (std::ssize(threads) < tried) threads.emplace_back([&] { all_started.wait(); });
  } catch (const std::system_error& error) {
    refusal = error.code().message();
  }
  all_started.count_down();
  FLOODTIDE_REQUIRE(refusal.empty(), unsupported, "threads: ", count, " given, the system refuses more than ",
                    std::min<std::int64_t>(count, std::ssize(threads)), " (", refusal, "); expected at most as many as the ",
                    available_cores(), " cores");
}

}  // namespace

void set_num_threads(int count) {
  FLOODTIDE_REQUIRE(count >= 1, invalid_argument, "threads: ", count, " given, expected at least 1");
  if (count > num_threads()) require_threads(count);
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
