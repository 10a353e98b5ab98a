// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/parallel.hpp"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/team.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

/// Throws Error(unsupported) unless the system allows `count` threads plus one eighth. Starts this many threads and ends them.
/// This way, a refusal is reported here and not in the middle of a step.
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

/// Number that set_num_threads was last given in this process; 0 before its first call.
std::atomic<int> process_threads = 0;

/// Number of the calling thread; 0 if it has none, and follows the process.
int& own_threads() {
  static thread_local int count = 0;
  return count;
}

}  // namespace

void set_num_threads(int count) {
  FLOODTIDE_REQUIRE(count >= 1, invalid_argument, "threads: ", count, " given, expected at least 1");
  if (count > num_threads()) require_threads(count);
  own_threads() = count;
  process_threads = count;
  omp_set_num_threads(count);  // for libraries that use OpenMP
}

int num_threads() {
  if (own_threads() > 0) return own_threads();
  const int count = process_threads.load(std::memory_order_relaxed);
  return count > 0 ? count : omp_get_max_threads();
}

OneThread::OneThread() : before_(std::exchange(own_threads(), 1)), openmp_before_(omp_get_max_threads()) {
  omp_set_num_threads(1);
}
OneThread::~OneThread() {
  own_threads() = before_;
  omp_set_num_threads(openmp_before_);
}

int worker_index() { return detail::Team::index(); }

int available_cores() { return omp_get_num_procs(); }

namespace detail {
namespace {

/// Return the team of the calling thread. A child of fork() makes a new one, and leaves that of its parent alone.
Team& own_team() {
  struct Owner : Immovable {
    Team* team = nullptr;
    ~Owner() {
      if (team != nullptr && team->process().is_here()) delete team;
    }
  };
  static thread_local Owner owner;
  if (owner.team == nullptr || !owner.team->process().is_here()) owner.team = new Team;
  return *owner.team;
}

}  // namespace

void parallel_chunks(std::int64_t chunks, ChunkFunction function, void* context) {
  const int threads = num_threads();
  if (threads > 1 && chunks > 1) {
    const OneThread inside;
    return own_team().run(chunks, threads, function, context);
  }
  const int index = std::exchange(Team::index(), 0);
  std::exception_ptr failure;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    try {
      function(context, chunk);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  Team::index() = index;
  if (failure) std::rethrow_exception(failure);
}

}  // namespace detail
}  // namespace floodtide
