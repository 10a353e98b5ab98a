// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/parallel.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

TEST(ParallelFor, RunsEveryChunkOnce) {
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    for (const std::int64_t chunks : {0, 1, 2, 17, 100}) {
      std::vector<int> runs(static_cast<std::size_t>(chunks), 0);
      parallel_for(chunks, [&runs](std::int64_t chunk) { ++runs[static_cast<std::size_t>(chunk)]; });
      for (const int count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ParallelFor, RethrowsTheFailureOfAChunk) {
  set_num_threads(2);
  EXPECT_THROW(parallel_for(8,
                            [](std::int64_t chunk) {
                              if (chunk == 5) raise(ErrorCode::numerical, "chunk 5");
                            }),
               Error);
}

TEST(ParallelFor, RunsOnOneThreadInsideOfAnother) {
  const int before = num_threads();
  set_num_threads(3);
  std::array<int, 6> threads{};
  std::array<std::array<int, 4>, 6> workers{};
  parallel_for(6, [&](std::int64_t outer) {
    threads[static_cast<std::size_t>(outer)] = num_threads();
    parallel_for(4, [&](std::int64_t inner) {
      workers[static_cast<std::size_t>(outer)][static_cast<std::size_t>(inner)] = worker_index();
    });
  });
  EXPECT_EQ(num_threads(), 3);
  for (const int count : threads) EXPECT_EQ(count, 1);
  for (const auto& row : workers) EXPECT_EQ(row, (std::array<int, 4>{}));
  set_num_threads(before);
}

TEST(ChunkRange, CoversEverythingWithSizesThatDifferByOne) {
  for (const std::int64_t total : {0, 1, 7, 33}) {
    for (const std::int64_t chunks : {1, 2, 5, 8}) {
      std::int64_t next = 0;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const Range range = chunk_range(total, chunks, chunk);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.end - range.begin, total / chunks);
        EXPECT_LE(range.end - range.begin, total / chunks + 1);
        next = range.end;
      }
      EXPECT_EQ(next, total);
    }
  }
}

}  // namespace
}  // namespace floodtide
