// SPDX-License-Identifier: Apache-2.0
// Ranks and messages between them. The collectives (collectives.hpp) are written on nothing but this interface, so that every
// transport gets them: `self` (one rank), `threads` (ranks as threads of one process) and `mpi` (mpi.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/named.hpp"

namespace floodtide::comm {

class Engine;

/// A message under way. Its buffer must stay valid and untouched until test() has returned true, wait() has returned or the
/// request is destroyed: the destructor completes a send and takes back a receive that nobody waited for. The communicator
/// outlives its requests.
class Request {
 public:
  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  Request(Request&&) = delete;
  Request& operator=(Request&&) = delete;
  virtual ~Request() = default;

  /// True once the message has been handed over. Throws Error(communication) when it failed.
  [[nodiscard]] virtual bool test() = 0;
  /// Returns when test() would return true; calls the communicator's on_wait meanwhile. Throws what test() and on_wait throw.
  virtual void wait() = 0;
};

enum class ReduceOp { sum, min, max, product };
/// What reductions know. float16 is IEEE binary16; a reduction of it computes in float32 and rounds each result.
enum class ReduceType { float32, float64, int64, int32, uint8, int8, float16 };
inline constexpr int kReduceOps = 4;
inline constexpr int kReduceTypes = 7;

constexpr Names<ReduceOp, 4> names_of(ReduceOp) {
  return {"operation",
          {{{"sum", ReduceOp::sum}, {"min", ReduceOp::min}, {"max", ReduceOp::max}, {"product", ReduceOp::product}}}};
}
constexpr Names<ReduceType, 7> names_of(ReduceType) {
  return {"element type",
          {{{"float32", ReduceType::float32},
            {"float64", ReduceType::float64},
            {"int64", ReduceType::int64},
            {"int32", ReduceType::int32},
            {"uint8", ReduceType::uint8},
            {"int8", ReduceType::int8},
            {"float16", ReduceType::float16}}}};
}
[[nodiscard]] std::size_t element_bytes(ReduceType type) noexcept;

/// An array whose element type is known only at run time.
struct ReduceBuffer {
  std::byte* data;
  std::int64_t count;
  ReduceType type;

  [[nodiscard]] ReduceBuffer part(std::int64_t first, std::int64_t length) const noexcept {
    return {data + static_cast<std::size_t>(first) * element_bytes(type), length, type};
  }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {data, static_cast<std::size_t>(count) * element_bytes(type)};
  }
};

/// Tags from this one on belong to the collectives; callers of send and receive use 0 <= tag < kFirstCollectiveTag.
inline constexpr int kFirstCollectiveTag = 16384;
inline constexpr int kLastTag = 32767;  ///< what every MPI library accepts

/// What this rank has sent through a communicator. Notices are the small messages (about 100 bytes) by which ranks compare what
/// collective they have started, ceil(log2 size) for each; they are counted apart, because they carry no values.
struct Traffic {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  std::int64_t notices = 0;
};

/// A group of ranks. Used by one thread of a rank at a time, but for what Operation allows.
class Communicator {
 public:
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&&) = delete;
  Communicator& operator=(Communicator&&) = delete;
  virtual ~Communicator();

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Transport and library, for reports: "threads", "mpi (MPICH Version: 5.0.2)".
  [[nodiscard]] virtual std::string description() const = 0;
  /// A text that is the same for all ranks of a node and differs between nodes. `mpi` returns the host's name and the kernel's
  /// boot id, because two hosts may have the same name.
  [[nodiscard]] virtual std::string node_name() const = 0;

  /// Starts a message. Between two ranks, messages with one tag arrive in the order in which they were sent.
  /// Throws Error(out_of_range) for a rank or tag that does not exist.
  [[nodiscard]] std::unique_ptr<Request> send(int to, int tag, std::span<const std::byte> data);
  /// Expects a message of exactly that many bytes; another length is an Error(communication) when it is waited for.
  [[nodiscard]] std::unique_ptr<Request> receive(int from, int tag, std::span<std::byte> out_data);

  /// Collective: returns when all ranks have called it.
  void barrier();
  /// Collective: a communicator of the ranks that give the same color (>= 0), ordered by key, then by rank here.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  /// Throws Error(unsupported) unless the transport has its own allreduce for this type. Only `mpi` has one.
  virtual void require_library_allreduce(ReduceType type) const;
  /// Collective: starts the transport's own allreduce. Throws Error(unsupported) where it has none.
  [[nodiscard]] virtual std::unique_ptr<Request> start_library_allreduce(const ReduceBuffer& buffer, ReduceOp op);
  /// Collective: the same, blocking. A waiting rank keeps its core busy, cannot be interrupted and holds up every other call of
  /// the library in its process: what benchmarks compare with, and of no other use. Throws as start_library_allreduce.
  virtual void blocking_library_allreduce(const ReduceBuffer& buffer, ReduceOp op);
  /// Ends the job, from any one rank: `mpi` ends all processes with this exit status; `threads` and `self` make all waiting
  /// and later calls on every rank fail with Error(communication) naming this rank and the reason, here too.
  [[noreturn]] virtual void abort(int status, std::string_view reason) = 0;

  /// Kills the job's processes on this host that still run after `seconds`. abort() does not reach them when the cable to the
  /// launcher's host is cut. Returns at once. Only `mpi` does this, and its abort() calls it too.
  virtual void end_host_within(double seconds);

  /// Whether the others can go on when a rank is lost. Only `mpi` can, with an Open MPI that was started for it.
  [[nodiscard]] virtual bool survives() const { return false; }
  /// Collective over the ranks that are not lost: whether all were fine here (null), or a communicator of those that are left,
  /// in this one's order, which is of no use any more (a rank that is not fine ends all waiting calls on it with
  /// Error(communication)). Waits without on_wait, and other threads' calls wait for it. Throws Error(unsupported) unless
  /// survives().
  [[nodiscard]] virtual std::unique_ptr<Communicator> settle(bool fine);

  /// Called every 50 ms or so while this rank waits (may be empty). What it throws leaves the waiting call: Ctrl-C.
  void set_on_wait(std::function<void()> on_wait) { on_wait_ = std::move(on_wait); }
  [[nodiscard]] const std::function<void()>& on_wait() const noexcept { return on_wait_; }

  [[nodiscard]] Traffic traffic() const noexcept;
  /// A line for each collective in flight: what it is, its step, and the rank that it waits for. From any thread.
  [[nodiscard]] std::vector<std::string> pending() const;

  /// Collective the first time: the number of the node of each rank, from 0 in the order of the first ranks there. Ranks of one
  /// machine are on one node, unless FLOODTIDE_RANKS_PER_NODE or set_ranks_per_node says how many consecutive ranks make one.
  [[nodiscard]] std::span<const int> nodes();
  /// Same value on all ranks, before nodes() is needed. Throws Error(invalid_argument) below 1.
  void set_ranks_per_node(int ranks);

  /// For the collectives alone: what they keep for this communicator.
  [[nodiscard]] Engine& engine() noexcept { return *engine_; }
  /// For the collectives alone: a notice, see Traffic.
  [[nodiscard]] std::unique_ptr<Request> send_notice(int to, std::span<const std::byte> data);
  /// For the collectives alone: the exchange of names that nodes() needs, after all ranks have agreed on it.
  void locate();

 protected:
  Communicator(int rank, int size);

 private:
  virtual std::unique_ptr<Request> start_send(int to, int tag, std::span<const std::byte> data) = 0;
  virtual std::unique_ptr<Request> start_receive(int from, int tag, std::span<std::byte> out_data) = 0;

  int rank_;
  int size_;
  std::function<void()> on_wait_;
  std::unique_ptr<Engine> engine_;
  std::atomic<std::int64_t> messages_ = 0;
  std::atomic<std::int64_t> bytes_ = 0;
  std::atomic<std::int64_t> notices_ = 0;
  int ranks_per_node_ = 0;  // 0: as the machines are
  std::vector<int> nodes_;

  void number_nodes(std::span<const std::string> names);
};

/// One rank, for itself.
[[nodiscard]] std::unique_ptr<Communicator> self();

/// `size` ranks of this process; hand each to a thread of its own.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> threads(int size);

/// Runs body(communicator) on `size` threads, one a rank, and returns when all have ended. If one throws, the others are woken
/// with an Error(communication) that names it, and its exception is rethrown here.
void run_threads(int size, const std::function<void(Communicator&)>& body);

}  // namespace floodtide::comm
