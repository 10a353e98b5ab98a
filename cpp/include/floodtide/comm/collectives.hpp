// SPDX-License-Identifier: Apache-2.0
// Collectives: operations that all ranks of a communicator do together.
//
// Every rank must call the same collectives in the same order, with the same lengths, types and options. If ranks differ, every
// rank throws the same AgreedError(communication), which names what each rank has called. No array is changed then, and the
// communicator can still be used. `words` is the caller's description of the values, as in AllreduceOptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/operation.hpp"

namespace floodtide::comm {

/// Copy the bytes of `root` to all ranks (binomial tree). Same length and root on all ranks. Collective.
[[nodiscard]] Operation start_broadcast(Communicator& comm, std::span<std::byte> data, int root, std::string_view words = {});
void broadcast(Communicator& comm, std::span<std::byte> data, int root, std::string_view words = {});

/// Start an operation that completes when all ranks have started it. Collective. See Communicator::barrier.
[[nodiscard]] Operation start_barrier(Communicator& comm);

/// Return the limits of one block per rank: ranks + 1 offsets in elements, from 0 to `count`. The lengths of the blocks differ
/// by at most one, and the longer blocks come first.
[[nodiscard]] std::vector<std::int64_t> even_blocks(std::int64_t count, int ranks);

/// Reduce an array over all ranks, so that each rank holds the result of its own block. Collective.
///
/// Afterwards the block of this rank holds the sum, minimum, maximum or product over ranks. The other blocks hold partial
/// results. The algorithm is a ring: values for the block of rank r are combined in the order of ranks r + 1, r + 2, ..., r.
///
/// @param blocks limits of the blocks in elements, as even_blocks() returns them; the same on all ranks
/// Throws as start_allreduce, and Error(shape_mismatch) if the blocks do not fit the array.
[[nodiscard]] Operation start_reduce_scatter(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op,
                                             std::span<const std::int64_t> blocks, Wire wire = Wire::native,
                                             std::string_view words = {});
void reduce_scatter(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, std::span<const std::int64_t> blocks,
                    Wire wire = Wire::native, std::string_view words = {});

/// Copy the block of every rank to all ranks (ring). Collective.
///
/// @param data   array of all blocks; this rank's block is set, and the other blocks are overwritten
/// @param blocks limits of the blocks in bytes; the same on all ranks
/// Throws as start_allreduce, and Error(shape_mismatch) if the blocks do not fit the array.
[[nodiscard]] Operation start_allgather(Communicator& comm, std::span<std::byte> data, std::span<const std::int64_t> blocks,
                                        std::string_view words = {});

/// Return the bytes of every rank, in rank order, on every rank. Lengths may differ. Collective.
[[nodiscard]] std::vector<std::vector<std::byte>> allgather(Communicator& comm, std::span<const std::byte> own,
                                                            std::string_view words = {});

/// Take part in the collectives of the other ranks until all ranks have called join(). Return the rank that joined last.
///
/// Call this on a rank that has no more work. The rank then takes part in allreduces with values that do not change the result
/// (zeros in sums), and in barriers and broadcasts. If several ranks join last at the same collective, the highest is returned.
///
/// Some collectives need values of a rank that has joined: allgather, reduce_scatter, alltoall, and a broadcast from
/// this rank. They throw AgreedError(unsupported) on every rank, also from join(). After this error, no rank is joined any
/// more. Throws as start_allreduce.
[[nodiscard]] int join(Communicator& comm);

/// Return the nanoseconds to add to this rank's monotonic clock to get the clock of rank 0. Collective.
///
/// The result comes from the fastest of twenty exchanges of messages with rank 0. Its error is at most half the time of this
/// exchange. Source: Cristian, Distributed Computing 3 (1989), 146-158.
[[nodiscard]] std::int64_t clock_offset_ns(Communicator& comm);

/// Error that all ranks of a communicator throw together, so that no rank is left waiting.
class FLOODTIDE_EXPORT AgreedError : public Error {
 public:
  /// Makes an error for all ranks of a communicator.
  /// @param rank  the lowest rank that failed
  /// @param ranks number of ranks that throw this error; 0: all ranks of the job
  AgreedError(ErrorCode code, const std::string& message, int rank, int ranks = 0)
      : Error(code, message), rank_(rank), ranks_(ranks) {}
  /// Return the lowest rank that failed. This rank should report the error.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// Return the number of ranks that throw this error; 0: all ranks of the job.
  [[nodiscard]] int ranks() const noexcept { return ranks_; }

 private:
  int rank_;
  int ranks_;
};

/// Throw an AgreedError on every rank if `failure_here` is not null on any rank. Collective.
///
/// The error has the code and message of the lowest rank that failed (see as_error for exceptions that are not an Error).
void agree(Communicator& comm, const std::exception_ptr& failure_here);

/// Do local work that may fail, then agree(): if it throws on any rank, all ranks throw an AgreedError. Collective.
template <class Work>
void agree_after(Communicator& comm, Work&& work) {
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  agree(comm, failure);
}

}  // namespace floodtide::comm
