// SPDX-License-Identifier: Apache-2.0
#include "allocations/counted.hpp"

#include <atomic>
#include <cstdlib>
#include <latch>
#include <new>

#include "floodtide/base/parallel.hpp"

namespace floodtide::test {
namespace {

std::atomic<std::int64_t> allocations = 0;
thread_local bool counts = false;

std::atomic<std::int64_t> before_failure = 0;  // allocations that succeed before the next failure
std::atomic<std::int64_t> failures_left = 0;
std::atomic<bool> failed = false;
thread_local bool is_spared = false;

void* counted(void* pointer) {
  if (counts) allocations.fetch_add(1, std::memory_order_relaxed);
  return pointer;
}

bool fails() {
  if (is_spared || failures_left <= 0 || before_failure.fetch_sub(1) > 0 || failures_left.fetch_sub(1) <= 0) return false;
  failed = true;
  return true;
}

/// Set `counts` on every thread of parallel_for. Each chunk waits for all chunks, so that every thread runs exactly one.
void set_on_all_threads(bool value) {
  const int threads = num_threads();
  std::latch all(threads);
  parallel_for(threads, [&](std::int64_t) {
    all.arrive_and_wait();
    counts = value;
  });
}

}  // namespace

void start_counting() {
  allocations = 0;
  set_on_all_threads(true);
}

std::int64_t stop_counting() {
  set_on_all_threads(false);
  return allocations;
}

FailingAllocations::FailingAllocations(std::int64_t first, std::int64_t count) {
  failed = false;
  before_failure = first;
  failures_left = count;
}
FailingAllocations::~FailingAllocations() { failures_left = 0; }
bool FailingAllocations::have_failed() { return failed; }

void spare_this_thread(bool spared) { is_spared = spared; }

}  // namespace floodtide::test

// The other forms of new and delete call these functions.
void* operator new(std::size_t bytes) {
  if (floodtide::test::fails()) throw std::bad_alloc();
  if (void* const pointer = std::malloc(bytes == 0 ? 1 : bytes)) return floodtide::test::counted(pointer);
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (void* const pointer = std::aligned_alloc(static_cast<std::size_t>(alignment), bytes)) return pointer;
  throw std::bad_alloc();
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::align_val_t) noexcept { std::free(pointer); }
void operator delete(void* pointer, std::size_t, std::align_val_t) noexcept { std::free(pointer); }

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  if (floodtide::test::fails()) return nullptr;
  void* pointer = nullptr;
  return ::posix_memalign(&pointer, alignment, bytes) == 0 ? floodtide::test::counted(pointer) : nullptr;
}
