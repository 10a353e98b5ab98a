// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/parallel.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
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

TEST(NumThreads, AThreadThatSetsNoneUsesThatOfTheProcess) {
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    std::thread([threads] { EXPECT_EQ(num_threads(), threads); }).join();
    const OneThread one;
    EXPECT_EQ(num_threads(), 1);
  }
  EXPECT_EQ(num_threads(), 3);
}

TEST(ParallelFor, RethrowsTheFailureOfAChunk) {
  set_num_threads(2);
  EXPECT_THROW(parallel_for(8,
                            [](std::int64_t chunk) {
                              if (chunk == 5) raise(ErrorCode::numerical, "chunk 5");
                            }),
               Error);
}

TEST(ParallelFor, RunsTheNextLoopsAfterAFailure) {
  set_num_threads(2);
  EXPECT_THROW(parallel_for(2, [](std::int64_t) { raise(ErrorCode::numerical, "every chunk"); }), Error);
  std::atomic<int> runs = 0;
  parallel_for(8, [&](std::int64_t) { ++runs; });
  EXPECT_EQ(runs, 8);
  EXPECT_EQ(num_threads(), 2);
}

// Workers that come late find the next loop, which has other chunks and other memory.
TEST(ParallelFor, GivesLateWorkersNoChunkOfAnotherLoop) {
  set_num_threads(4);
  for (int loop = 0; loop < 5000; ++loop) {
    const int chunks = 1 + loop % 7;
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(chunks));
    parallel_for(chunks, [&runs](std::int64_t chunk) { ++runs[static_cast<std::size_t>(chunk)]; });
    for (const std::atomic<int>& count : runs) ASSERT_EQ(count, 1);
  }
}

TEST(ParallelFor, GivesEachThreadAnIndexBelowTheNumberOfThreads) {
  for (const int threads : {4, 2, 3}) {  // fewer threads than before leave workers without work
    set_num_threads(threads);
    std::array<std::atomic<int>, 3> wrong{};
    parallel_for(200, [&](std::int64_t) { wrong[0] += worker_index() < 0 || worker_index() >= threads; });
    EXPECT_EQ(wrong[0], 0);
  }
}

#if !defined(__SANITIZE_THREAD__)  // which allows no threads after a fork
TEST(ParallelFor, WorksInAChildOfFork) {
  set_num_threads(2);
  parallel_for(8, [](std::int64_t) {});  // starts a worker, which the child does not have
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<int> runs = 0;
    for (int loop = 0; loop < 100; ++loop) parallel_for(8, [&](std::int64_t) { ++runs; });
    ::_exit(runs == 800 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

TEST(ParallelFor, EndsItsWorkersWithTheThreadThatCallsIt) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
  };
  const auto before = threads();
  std::thread caller([] {
    set_num_threads(3);
    parallel_for(8, [](std::int64_t) {});
  });
  caller.join();
  // The system removes the entry of a thread some time after the thread has ended.
  for (int attempt = 0; threads() != before && attempt < 1000; ++attempt)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(threads(), before);
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

TEST(ParallelFor, RunsLoopsOfSeveralThreadsAtTheSameTime) {
  const int before = num_threads();
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([caller] {
      set_num_threads(1 + caller);
      for (std::int64_t round = 0; round < 300; ++round) {
        std::array<std::int64_t, 13> results{};
        std::array<int, 4> busy{};  // by worker: each one runs one chunk at a time
        parallel_for(std::ssize(results), [&](std::int64_t chunk) {
          int& own = busy.at(static_cast<std::size_t>(worker_index()));
          EXPECT_EQ(++own, 1);
          results[static_cast<std::size_t>(chunk)] = round + chunk;
          --own;
        });
        for (std::int64_t chunk = 0; chunk < std::ssize(results); ++chunk) {
          ASSERT_EQ(results[static_cast<std::size_t>(chunk)], round + chunk);
        }
      }
    });
  }
  callers.clear();
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
