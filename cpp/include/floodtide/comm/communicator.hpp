// SPDX-License-Identifier: Apache-2.0
// Ranks and messages between them. Transports implement this interface: `self` (one rank) and `mpi` (mpi.hpp). The collectives
// (collectives.hpp) use only this interface, so that they work on all transports.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/named.hpp"

namespace floodtide::comm {

class Engine;

/// A message that is being sent or received. Its buffer must stay valid and untouched until test() has returned true, wait()
/// has returned, or the request is destroyed. The destructor completes a send, and cancels a receive that is not complete. The
/// communicator must outlive its requests.
class Request : Immovable {
 public:
  virtual ~Request() = default;

  /// True if the buffer may be used again: the message has been sent or received. Throws Error(communication) if it failed.
  [[nodiscard]] virtual bool test() = 0;
  /// Wait until test() returns true, and call the communicator's on_wait meanwhile. Throws what test() and on_wait throw.
  virtual void wait() = 0;
};

enum class ReduceOp { sum, min, max, product };
/// Element types of reductions. float16 is IEEE binary16; its reductions compute in float32 and round each result.
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
/// Return the size of one element in bytes.
[[nodiscard]] std::size_t element_bytes(ReduceType type) noexcept;

/// View of an array whose element type is known at run time only. Another object owns the array.
struct ReduceBuffer {
  std::byte* data;
  std::int64_t count;
  ReduceType type;

  /// Return a view of an array of float, double or std::int64_t.
  template <class T, std::size_t Extent>
  [[nodiscard]] static ReduceBuffer of(std::span<T, Extent> values) noexcept {
    constexpr bool is_float = std::is_same_v<T, float>, is_double = std::is_same_v<T, double>;
    static_assert(is_float || is_double || std::is_same_v<T, std::int64_t>);
    return {std::as_writable_bytes(values).data(), std::ssize(values),
            is_float    ? ReduceType::float32
            : is_double ? ReduceType::float64
                        : ReduceType::int64};
  }
  [[nodiscard]] ReduceBuffer part(std::int64_t first, std::int64_t length) const noexcept {
    return {data + static_cast<std::size_t>(first) * element_bytes(type), length, type};
  }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {data, static_cast<std::size_t>(count) * element_bytes(type)};
  }
};

/// First tag of the collectives. Callers of send and receive use 0 <= tag < kFirstCollectiveTag.
inline constexpr int kFirstCollectiveTag = 16384;
inline constexpr int kLastTag = 32767;  ///< largest tag that every MPI library accepts

/// What this rank has sent on a communicator. Notices are small messages (about 100 bytes) with which ranks compare the
/// collectives that they have started: ceil(log2 size) notices per collective. They are not included in messages and bytes.
struct Traffic {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  std::int64_t notices = 0;
};

/// A group of ranks that exchange messages. One thread of a rank may use it at a time; see Operation for an exception.
class Communicator : Immovable {
 public:
  virtual ~Communicator();

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Return transport and library, for reports: "threads", "mpi (MPICH Version: 5.0.2)".
  [[nodiscard]] virtual std::string description() const = 0;
  /// Return a text that is the same for all ranks of a node and differs between nodes. `mpi` returns the host's name and the
  /// kernel's boot id, because two hosts may have the same name.
  [[nodiscard]] virtual std::string node_name() const = 0;

  /// Start to send a message. Messages between two ranks with the same tag arrive in the order in which they were sent.
  /// Throws Error(out_of_range) for a rank or tag that does not exist.
  [[nodiscard]] std::unique_ptr<Request> send(int to, int tag, std::span<const std::byte> data);
  /// Start to receive a message of exactly out_data.size() bytes. A message of another length makes the request throw
  /// Error(communication). Throws Error(out_of_range) for a rank or tag that does not exist.
  [[nodiscard]] std::unique_ptr<Request> receive(int from, int tag, std::span<std::byte> out_data);

  /// Wait until all ranks have called this. Collective.
  void barrier();
  /// Return a communicator of the ranks that pass the same color (>= 0), ordered by key, then by rank here. Collective.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  /// Throws Error(unsupported) unless the transport has its own allreduce for this type. Only `mpi` has one.
  virtual void require_library_allreduce(ReduceType type) const;
  /// Start the transport's own allreduce. Collective. Throws Error(unsupported) as require_library_allreduce does.
  [[nodiscard]] virtual std::unique_ptr<Request> start_library_allreduce(const ReduceBuffer& buffer, ReduceOp op);
  /// Run the transport's own blocking allreduce. Collective. For comparisons in benchmarks only: a waiting rank keeps its core
  /// busy, cannot be interrupted, and blocks all other MPI calls of its process. Throws as start_library_allreduce.
  virtual void blocking_library_allreduce(const ReduceBuffer& buffer, ReduceOp op);
  /// End the job. Any single rank may call this. `mpi` ends all processes with this exit status. `self` makes this call throw
  /// Error(communication) with the reason.
  [[noreturn]] virtual void abort(int status, std::string_view reason) = 0;

  /// Kill the processes of the job on this host that still run after `seconds`. Returns at once.
  ///
  /// abort() does not reach these processes if the network cable to the host of the launcher is cut. Only `mpi` implements
  /// this, and its abort() calls it too. Other transports do nothing.
  virtual void end_host_within(double seconds);

  /// Set a function that is called about every 50 ms while this rank waits. It may be empty. If it throws, the waiting call
  /// throws the same exception; this makes Ctrl-C work.
  void set_on_wait(std::function<void()> on_wait) { on_wait_ = std::move(on_wait); }
  [[nodiscard]] const std::function<void()>& on_wait() const noexcept { return on_wait_; }

  /// Declare that messages on this communicator may never be received. No later communicator will then get them: `mpi` does not
  /// free this one. A collective that is given up does the same. Any thread may call this.
  void spoil() noexcept { spoiled_ = true; }
  [[nodiscard]] bool is_spoiled() const noexcept { return spoiled_; }

  [[nodiscard]] Traffic traffic() const noexcept;
  /// Return one line for each collective in flight: what it is, its step, and the rank that it waits for. Any thread may call
  /// this.
  [[nodiscard]] std::vector<std::string> pending() const;

  /// Return the node index of each rank. The node of rank 0 is 0; further nodes are numbered by their lowest rank. The first
  /// call is collective.
  ///
  /// Ranks with the same node_name() are on one node. The environment variable FLOODTIDE_RANKS_PER_NODE or
  /// set_ranks_per_node() can set the number of consecutive ranks per node instead.
  [[nodiscard]] std::span<const int> nodes();
  /// Set the number of consecutive ranks per node. Call this with the same value on all ranks, before the first nodes().
  /// Throws Error(invalid_argument) if `ranks` is below 1.
  void set_ranks_per_node(int ranks);

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
  std::atomic<bool> spoiled_ = false;
  int ranks_per_node_ = 0;  // 0: not set
  std::vector<int> nodes_;

  friend struct CommunicatorAccess;  // for the implementation of collectives

  std::unique_ptr<Request> send_notice(int to, std::span<const std::byte> data);
  /// Exchanges the node names that nodes() needs, after all ranks have agreed to do so.
  void locate();
  void number_nodes(std::span<const std::string> names);
};

/// Return ranks as text for a message: "rank 3" or "ranks 0, 2, 5-9". `ranks` is in increasing order.
[[nodiscard]] std::string name_ranks(std::span<const int> ranks);

/// Return a communicator with one rank, which sends no messages.
[[nodiscard]] std::unique_ptr<Communicator> self();

}  // namespace floodtide::comm
