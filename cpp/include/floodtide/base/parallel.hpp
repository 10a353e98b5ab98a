// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace floodtide {

/// Threads that parallel_for of the calling thread uses: one inside of another parallel_for. Every rank (process, or thread
/// of the `threads` transport) has its own number. Throws Error(unsupported) for more threads than the system allows.
void set_num_threads(int count);
[[nodiscard]] int num_threads();
/// Number of the thread that runs a chunk of parallel_for, from 0 to num_threads() - 1; 0 outside of it.
[[nodiscard]] int worker_index();
/// Cores that this process may run on (its affinity mask).
[[nodiscard]] int available_cores();

namespace detail {
using ChunkFunction = void (*)(void* context, std::int64_t chunk);
void parallel_chunks(std::int64_t chunks, ChunkFunction function, void* context);
}  // namespace detail

/// Calls body(chunk) for every chunk in [0, chunks), on num_threads() threads. Which thread runs a chunk is not defined, so
/// results stay independent of the number of threads as long as the caller fixes the number of chunks and adds partial
/// sums in chunk order (CONVENTIONS K6). The first exception is rethrown after all chunks have ended. Does not allocate.
template <class Body>
void parallel_for(std::int64_t chunks, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::parallel_chunks(
      chunks, [](void* context, std::int64_t chunk) { (*static_cast<Plain*>(context))(chunk); },
      const_cast<std::remove_const_t<Plain>*>(std::addressof(body)));
}

/// The half-open range of `total` items that belongs to `chunk` of `chunks` (sizes differ by at most one).
struct Range {
  std::int64_t begin;
  std::int64_t end;
};
[[nodiscard]] constexpr Range chunk_range(std::int64_t total, std::int64_t chunks, std::int64_t chunk) {
  const std::int64_t base = total / chunks;
  const std::int64_t extra = total % chunks;
  const std::int64_t begin = chunk * base + (chunk < extra ? chunk : extra);
  return {begin, begin + base + (chunk < extra ? 1 : 0)};
}

}  // namespace floodtide
