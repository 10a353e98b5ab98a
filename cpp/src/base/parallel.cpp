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

/// Tells the thread sanitizer that memory accesses before release() happen before those after acquire(). The sanitizer does not
/// see how libgomp starts and joins its threads.
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

/// Throws Error(unsupported) unless the system allows `count` threads plus one eighth. Starts this many threads and ends them.
/// The check is needed because libgomp ends the process if the system refuses a thread.
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

OneThread::OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(before_); }

int worker_index() { return omp_get_thread_num(); }

int available_cores() { return omp_get_num_procs(); }

namespace detail {

// The thread sanitizer is off in this function: libgomp passes the shared variables of the region to its threads before
// start.acquire() runs. It still checks the code of the chunks.
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
