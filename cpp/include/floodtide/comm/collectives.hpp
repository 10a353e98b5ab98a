// SPDX-License-Identifier: Apache-2.0
// Operations of all ranks of a communicator together: every rank must call the same ones in the same order, with the same
// lengths, types and options. Where ranks differ, every rank throws the same AgreedError(communication), which names the ranks
// by what they have called; no array is changed, and the communicator can be used further. `words` is how the caller describes
// the values, as in AllreduceOptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/operation.hpp"

namespace floodtide::comm {

/// Collective: copies root's bytes to all ranks (binomial tree). Same length and root on all ranks.
[[nodiscard]] Operation start_broadcast(Communicator& comm, std::span<std::byte> data, int root, std::string_view words = {});
void broadcast(Communicator& comm, std::span<std::byte> data, int root, std::string_view words = {});

/// Collective: completes when all ranks have started it, which every collective waits for first. See Communicator::barrier.
[[nodiscard]] Operation start_barrier(Communicator& comm);

/// Where each rank's block of an array of all ranks begins: size + 1 element numbers, ascending from 0, the last one the
/// length. Blocks of `count` elements cut as evenly as possible, the longer ones first.
[[nodiscard]] std::vector<std::int64_t> even_blocks(std::int64_t count, int ranks);

/// Collective: afterwards this rank's block of the array holds the sum, minimum or maximum over ranks of that block (ring, in
/// the order of ranks r + 1, r + 2, ..., r for the block of rank r); the other blocks hold partial results. Same array length
/// and blocks on all ranks. Throws as start_allreduce, and Error(shape_mismatch) for blocks that do not fit the array.
[[nodiscard]] Operation start_reduce_scatter(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op,
                                             std::span<const std::int64_t> blocks, Wire wire = Wire::native,
                                             std::string_view words = {});
void reduce_scatter(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, std::span<const std::int64_t> blocks,
                    Wire wire = Wire::native, std::string_view words = {});

/// Collective: afterwards the array holds every rank's block (ring). Offsets in bytes; same ones on all ranks.
[[nodiscard]] Operation start_allgather(Communicator& comm, std::span<std::byte> data, std::span<const std::int64_t> blocks,
                                        std::string_view words = {});
void allgather(Communicator& comm, std::span<std::byte> data, std::span<const std::int64_t> blocks,
               std::string_view words = {});

/// Collective: every rank's bytes, in rank order, on every rank. Lengths may differ.
[[nodiscard]] std::vector<std::vector<std::byte>> allgather(Communicator& comm, std::span<const std::byte> own,
                                                            std::string_view words = {});

/// Collective: return the bytes of all ranks, in rank order, on `root`; the other ranks get none. A rank's bytes are its pieces
/// one after another, and they travel to the root only. Lengths may differ. Same root on all ranks.
[[nodiscard]] AlignedBuffer<std::byte> gather(Communicator& comm, std::span<const std::span<const std::byte>> pieces, int root,
                                              std::string_view words = {});

/// Collective with whatever the other ranks do: this rank has no more work of its own and takes part in their allreduces with
/// values that change nothing (zeros in sums), and in their barriers and broadcasts, until all ranks have joined. Returns the
/// last rank to join (of several at once the highest). Needs no thread: what to take part in is learned from the comparison
/// that every collective begins with. A collective that needs values of a rank that has joined (allgather, gather,
/// reduce_scatter, broadcast from there) is an AgreedError(unsupported) on every rank, here too; then no rank is joined any
/// more. Throws what start_allreduce throws.
[[nodiscard]] int join(Communicator& comm);

/// Collective: true if `ok` is true on all ranks.
[[nodiscard]] bool all_ok(Communicator& comm, bool ok);

/// A failure that all ranks know of and throw alike, so that none is left waiting.
class FLOODTIDE_EXPORT AgreedError : public Error {
 public:
  /// `ranks` throw it alike: as many as the communicator has, or 0 for all of the job.
  AgreedError(ErrorCode code, const std::string& message, int rank, int ranks = 0)
      : Error(code, message), rank_(rank), ranks_(ranks) {}
  /// The lowest rank that failed: the one that should report it.
  [[nodiscard]] int rank() const noexcept { return rank_; }
  /// How many ranks throw it; 0: all of the job.
  [[nodiscard]] int ranks() const noexcept { return ranks_; }

 private:
  int rank_;
  int ranks_;
};

/// Collective: returns if `failure_here` is null on all ranks; otherwise throws AgreedError on every rank with the code and
/// message of the lowest rank that failed (code `internal` for exceptions that are not ours). Call it after local work that
/// may fail: `catch (...) { failure = std::current_exception(); }`, then agree(comm, failure).
void agree(Communicator& comm, const std::exception_ptr& failure_here);

}  // namespace floodtide::comm
