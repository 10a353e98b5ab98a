// SPDX-License-Identifier: Apache-2.0
#include "base/team.hpp"

#include <omp.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::detail {
namespace {

constexpr std::int64_t kSpinNs = 50'000;
constexpr std::int64_t kYieldNs = 1'000'000;
constexpr std::int64_t kAnotherRanNs = 100'000;    // a call of yield() that lasts longer: another thread has run
constexpr std::int64_t kSharedForNs = 50'000'000;  // a core counts as shared for this time

/// Lets a thread wait for a short time without work.
///
/// The thread first polls and keeps its core, because most waits inside a training step are shorter than a system call. Then it
/// yields. If no other thread wants the core, yielding costs nothing. If another thread runs meanwhile, the core is shared, and
/// the waiting thread sleeps. It then also sleeps at its next waits for some time, because the system gives a shared core back
/// sooner to a thread that slept than to one that yielded.
class Wait {
 public:
  /// Returns true when ready() does, or false when it is time to sleep.
  template <class Ready>
  static bool until(Ready ready) {
    if (ready()) return true;
    const std::int64_t start = now_ns();
    std::int64_t now = start;
    while (now - start < kSpinNs || active()) {
      for (int i = 0; i < 16; ++i) {
        if (ready()) return true;
        pause();
      }
      now = now_ns();
    }
    if (now < shared_until_) return false;
    while (now - start < kYieldNs) {
      std::this_thread::yield();
      if (ready()) return true;
      const std::int64_t after = now_ns();
      if (after - now > kAnotherRanNs) {
        shared_until_ = after + kSharedForNs;
        return false;
      }
      now = after;
    }
    return false;
  }

  /// True if OMP_WAIT_POLICY asks threads to keep their cores. The first call reads the environment.
  static bool active() {
    static const bool wanted = [] {
      const char* const policy = std::getenv("OMP_WAIT_POLICY");
      const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
      return policy != nullptr && std::ranges::equal(std::string_view(policy), std::string_view("active"), same);
    }();
    return wanted;
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  static thread_local std::int64_t shared_until_;
};
thread_local std::int64_t Wait::shared_until_ = std::numeric_limits<std::int64_t>::min();

/// Binds the calling thread to the place of worker `index` if OMP_PROC_BIND or OMP_PLACES ask for this: OpenMP has bound the
/// caller to a single place then, which the new thread inherits.
void bind_to_place([[maybe_unused]] int caller_place, [[maybe_unused]] int index) {
#if defined(__linux__)
  const int places = omp_get_num_places();
  if (omp_get_proc_bind() == omp_proc_bind_false || caller_place < 0 || places < 1) return;
  const int place = (caller_place + index) % places;
  std::vector<int> cores(static_cast<std::size_t>(omp_get_place_num_procs(place)));
  omp_get_place_proc_ids(place, cores.data());
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);  // a refusal leaves the thread where it is
#endif
}

}  // namespace

int& Team::index() {
  static thread_local int index = 0;
  return index;
}

Team::~Team() {
  ended_ = true;
  ++jobs_;
  jobs_.notify_all();
}

void Team::add_worker() {
  const int index = static_cast<int>(std::ssize(workers_)) + 1, caller_place = omp_get_place_num();
  static_cast<void>(Wait::active());  // reads the environment here, not first in the worker
  try {
    workers_.emplace_back([this, index, caller_place, seen = jobs_.load()]() mutable {
      bind_to_place(caller_place, index);
      const OneThread inside;  // also for libraries that use OpenMP
      Team::index() = index;
      for (;;) {
        if (!Wait::until([&] { return jobs_.load(std::memory_order_relaxed) != seen; })) jobs_.wait(seen);
        seen = jobs_;
        if (ended_) return;
        work(index);
      }
    });
  } catch (const std::system_error& error) {
    raise(ErrorCode::unsupported, str_cat("threads: the system refuses thread ", index + 1, " (", error.code().message(), ")"));
  }
}

void Team::work(int index) {
  const int parts = std::min(threads_.load(std::memory_order_relaxed), kMostParts);
  for (int i = 0; i < parts; ++i) work_on((index + i) % parts, index);
}

void Team::work_on(int part, int index) {
  std::atomic<std::uint64_t>& shared_ticket = parts_[static_cast<std::size_t>(part)].ticket;
  for (;;) {
    std::uint64_t ticket = shared_ticket.load(std::memory_order_acquire);
    const auto unclaimed = static_cast<std::uint32_t>(ticket);
    const std::int64_t chunks = chunks_.load(std::memory_order_relaxed);
    const int threads = threads_.load(std::memory_order_relaxed);
    const ChunkFunction function = function_.load(std::memory_order_relaxed);
    void* const context = context_.load(std::memory_order_relaxed);
    if (unclaimed == 0 || index >= threads) return;
    if (!shared_ticket.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel)) continue;
    try {
      function(context, chunk_range(chunks, std::min(threads, kMostParts), part).end - unclaimed);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    if (unfinished_.fetch_sub(1) == 1) unfinished_.notify_one();
  }
}

void Team::run(std::int64_t chunks, int threads, ChunkFunction function, void* context) {
  FLOODTIDE_ASSERT(chunks > 0 && chunks <= std::numeric_limits<std::uint32_t>::max());
  while (std::ssize(workers_) < threads - 1) add_worker();
  chunks_.store(chunks, std::memory_order_relaxed);
  threads_.store(threads, std::memory_order_relaxed);
  function_.store(function, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  unfinished_.store(static_cast<std::uint32_t>(chunks), std::memory_order_relaxed);
  ++job_;
  const int parts = std::min(threads, kMostParts);
  for (int part = 0; part < parts; ++part) {
    const Range range = chunk_range(chunks, parts, part);
    parts_[static_cast<std::size_t>(part)].ticket.store(std::uint64_t{job_} << 32 | static_cast<std::uint64_t>(range.size()),
                                                        std::memory_order_release);
  }
  ++jobs_;
  jobs_.notify_all();
  work(0);
  while (const std::uint32_t left = unfinished_.load(std::memory_order_acquire)) {
    if (!Wait::until([this] { return unfinished_.load(std::memory_order_acquire) == 0; })) unfinished_.wait(left);
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace floodtide::detail
