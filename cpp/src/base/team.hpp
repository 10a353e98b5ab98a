// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/own_process.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::detail {

/// The threads that help one thread with its parallel_for: the caller and its workers claim chunks one by one.
///
/// Each thread has a part of the chunks. Jobs with equally many chunks and threads have equal parts. A thread first claims the
/// chunks of its part, because what it wrote there before may still be in its caches. Then it claims chunks of other parts.
///
/// The caller waits for claimed chunks only, not for workers. So a worker without a core, because another program has it, does
/// not delay a job: the others compute its share. A thread without work waits for the next job, or for the last chunk, as Wait
/// describes.
class Team : Immovable {
 public:
  ~Team();

  /// Calls function(context, chunk) for every chunk in [0, chunks) on up to `threads` threads. Rethrows the first exception
  /// after all chunks have ended. Throws Error(unsupported) if the system refuses a thread.
  void run(std::int64_t chunks, int threads, ChunkFunction function, void* context);

  /// Return the process that created the team. A child of fork() has none of the workers.
  [[nodiscard]] const OwnProcess& process() const noexcept { return process_; }
  /// Return the index of the calling thread in the job that it works for; 0 for the caller and outside of jobs.
  [[nodiscard]] static int& index();

 private:
  /// Claims chunks of the current job and runs them until no chunk is left.
  void work(int index);
  /// The same for one part.
  void work_on(int part, int index);
  void add_worker();

  OwnProcess process_;

  // A job is divided into as many parts of consecutive chunks as it has threads. The ticket of a part has the number of the job
  // in its upper half, and the number of chunks that no thread has claimed in its lower half. A thread claims a chunk by
  // subtracting 1. It reads the description of the job before: if the ticket is unchanged when the thread subtracts, the job
  // was not complete, and the description is that of this job.
  struct alignas(64) Part {
    std::atomic<std::uint64_t> ticket{0};
  };
  static constexpr int kMostParts = 64;  // further threads share parts
  std::array<Part, kMostParts> parts_;
  std::uint32_t job_ = 0;
  std::atomic<std::int64_t> chunks_{0};
  std::atomic<int> threads_{0};
  std::atomic<ChunkFunction> function_{nullptr};
  std::atomic<void*> context_{nullptr};
  alignas(64) std::atomic<std::uint32_t> unfinished_{0};  // chunks of the job
  alignas(64) std::atomic<std::uint32_t> jobs_{0};        // changes when a job begins; idle workers wait for this
  std::atomic<bool> ended_{false};

  std::mutex mutex_;
  std::exception_ptr failure_;  // the first one of the job
  std::vector<std::jthread> workers_;
};

}  // namespace floodtide::detail
