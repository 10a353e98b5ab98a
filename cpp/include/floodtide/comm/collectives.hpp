// SPDX-License-Identifier: Apache-2.0
// Operations of all ranks of a communicator together: every rank must call the same ones in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

inline constexpr std::string_view kDefaultAllreduce = "ring";
/// Message size of the ring: large enough to hide the cost of a message, small enough that sending and adding overlap.
inline constexpr std::size_t kDefaultSegmentBytes = 256 * 1024;

/// A way to sum over ranks. See docs/algorithms.md for steps and bytes on the wire.
struct AllreduceRow {
  std::string_view name;
  std::string_view help;
  void (*run)(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, std::size_t segment_bytes);
};

/// The registry: all algorithms, in the order in which help texts show them.
[[nodiscard]] std::span<const AllreduceRow> allreduce_rows();
/// Throws Error(invalid_argument) naming the known ones.
[[nodiscard]] const AllreduceRow& allreduce_row(std::string_view name);

/// Collective: replaces the values by their sum, minimum or maximum over ranks. Same length, op and algorithm on all ranks.
/// Afterwards all ranks hold the same bits; with `ring` they depend only on the values, the length and the number of ranks.
/// A NaN on any rank gives NaN. One rank: nothing to do. Throws Error(unsupported) for `mpi` on other transports with several
/// ranks, and Error(communication).
void allreduce(Communicator& comm, std::span<float> values, ReduceOp op, std::string_view algorithm = kDefaultAllreduce,
               std::size_t segment_bytes = kDefaultSegmentBytes);
void allreduce(Communicator& comm, std::span<double> values, ReduceOp op, std::string_view algorithm = kDefaultAllreduce,
               std::size_t segment_bytes = kDefaultSegmentBytes);
void allreduce(Communicator& comm, std::span<std::int64_t> values, ReduceOp op, std::string_view algorithm = kDefaultAllreduce,
               std::size_t segment_bytes = kDefaultSegmentBytes);

/// Collective: copies root's bytes to all ranks (binomial tree). Same length on all ranks.
void broadcast(Communicator& comm, std::span<std::byte> data, int root);

/// Collective: every rank's bytes, in rank order, on every rank (ring). Lengths may differ.
[[nodiscard]] std::vector<std::vector<std::byte>> allgather(Communicator& comm, std::span<const std::byte> own);

/// Collective: true if `ok` is true on all ranks.
[[nodiscard]] bool all_ok(Communicator& comm, bool ok);

/// A failure that all ranks know of and throw alike, so that none is left waiting.
class FLOODTIDE_EXPORT AgreedError : public Error {
 public:
  AgreedError(ErrorCode code, const std::string& message, int rank) : Error(code, message), rank_(rank) {}
  /// The lowest rank that failed: the one that should report it.
  [[nodiscard]] int rank() const noexcept { return rank_; }

 private:
  int rank_;
};

/// Collective: returns if `failure_here` is null on all ranks; otherwise throws AgreedError on every rank with the code and
/// message of the lowest rank that failed (code `internal` for exceptions that are not ours). Call it after local work that
/// may fail: `catch (...) { failure = std::current_exception(); }`, then agree(comm, failure).
void agree(Communicator& comm, const std::exception_ptr& failure_here);

}  // namespace floodtide::comm
