// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "floodtide/base/immovable.hpp"

namespace floodtide {

/// Set the number of threads that parallel_for uses when the calling thread calls it, or a thread that has not set a number
/// itself. So threads that the library starts use the number of their process, and ranks that are threads of one process (the
/// `threads` transport) may each set their number. Throws Error(invalid_argument) if `count` is below 1, and Error(unsupported)
/// if the system does not allow this many threads.
void set_num_threads(int count);
/// Return the number of threads that parallel_for uses: the value of set_num_threads, or 1 inside another parallel_for.
[[nodiscard]] int num_threads();
/// While an object of this class exists, num_threads() of the calling thread is 1, also for libraries that use OpenMP.
class OneThread : Immovable {
 public:
  OneThread();
  ~OneThread();

 private:
  int before_;
  int openmp_before_;
};

/// Return the index of the calling thread inside parallel_for, from 0 to its number of threads - 1. Return 0 elsewhere.
[[nodiscard]] int worker_index();
/// Return the number of cores that this process may run on (its affinity mask).
[[nodiscard]] int available_cores();

namespace detail {
using ChunkFunction = void (*)(void* context, std::int64_t chunk);
void parallel_chunks(std::int64_t chunks, ChunkFunction function, void* context);
}  // namespace detail

/// Calls body(chunk) for every chunk in [0, chunks), on num_threads() threads. Any thread may run any chunk.
///
/// Results do not depend on the number of threads if the caller fixes the number of chunks and adds partial sums in chunk
/// order. After all chunks have ended, the first exception that a chunk threw is rethrown. Does not allocate.
template <class Body>
void parallel_for(std::int64_t chunks, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::parallel_chunks(
      chunks, [](void* context, std::int64_t chunk) { (*static_cast<Plain*>(context))(chunk); },
      const_cast<std::remove_const_t<Plain>*>(std::addressof(body)));
}

/// Half-open range of indices: begin is included, end is not.
struct Range {
  std::int64_t begin;
  std::int64_t end;

  [[nodiscard]] constexpr std::int64_t size() const noexcept { return end - begin; }
  [[nodiscard]] constexpr bool empty() const noexcept { return begin == end; }
};
/// Return the range of items of one chunk when `total` items are split into `chunks` chunks. Sizes differ by at most one.
[[nodiscard]] constexpr Range chunk_range(std::int64_t total, std::int64_t chunks, std::int64_t chunk) {
  const std::int64_t base = total / chunks;
  const std::int64_t extra = total % chunks;
  const std::int64_t begin = chunk * base + (chunk < extra ? chunk : extra);
  return {begin, begin + base + (chunk < extra ? 1 : 0)};
}

}  // namespace floodtide
