// SPDX-License-Identifier: Apache-2.0
// Checks for all transports. The unit tests run them on threads, and the MPI tests run them under mpiexec with each MPI
// plug-in. Every check is collective. A failure is reported with GoogleTest's macros, on the rank that finds it.
#pragma once

#include "floodtide/comm/communicator.hpp"

namespace floodtide::test {

/// Check allreduce: every algorithm of the transport with all element types except float16, and all four operations.
///
/// Lengths are 0, small lengths around the number of ranks, primes, many segments, and 472,353 floats. Results are compared
/// with sums in a wider type, and all ranks must hold the same bits. Sums of integers must be exact.
void check_allreduce(comm::Communicator& comm, bool has_library_allreduce);
/// Check allreduce of float16, compared with double. `mpi` does not support float16, and must throw on every rank.
void check_half_allreduce(comm::Communicator& comm, bool has_library_allreduce);
/// Check every algorithm with five million floats, and with 1,000,003 (a prime) doubles and int64.
void check_long_allreduce(comm::Communicator& comm, bool has_library_allreduce);
/// Check the bf16 wire format. Errors must be within the bound of the algorithm's roundings, and all ranks must hold the same
/// bits. Messages must have exactly half the bytes of float32.
void check_narrow_wire(comm::Communicator& comm);
/// Check that an allreduce sends the messages and bytes of its schedule.
void check_traffic(comm::Communicator& comm);
/// Check every algorithm with emulated nodes of 1, 2 and 3 ranks. The caller must not have set other ranks per node.
void check_two_levels(comm::Communicator& comm);
/// Check many operations of several kinds in flight, completed in a different random order on each rank.
void check_concurrent_operations(comm::Communicator& comm, bool has_library_allreduce);
/// Check reduce_scatter with equal, unequal and empty blocks.
void check_reduce_scatter(comm::Communicator& comm);
/// Check ranks that differ in type, operation, length, words, algorithm, root, collective and so on, many times each. Every
/// rank must throw the same message, no array may change, and the next collective must work.
void check_disagreements(comm::Communicator& comm, bool has_library_allreduce);
/// Check ranks that differ while other operations are in flight, also in another order on every second rank.
void check_disagreements_in_flight(comm::Communicator& comm);
/// Check groups: results, and ranks that differ in the number of members or in one member.
void check_groups(comm::Communicator& comm);
/// Check ranks that differ while a rank has joined, and collectives that need values of the joined rank.
void check_disagreements_with_joined(comm::Communicator& comm, bool has_library_allreduce);
/// Check ranks that join at different times, while the collectives of the other ranks continue.
void check_join(comm::Communicator& comm);
/// Check that a rank that waits for a late rank does not keep its core busy.
void check_waiting_is_cheap(comm::Communicator& comm);
/// Check that messages with one tag keep their order, also between messages with other tags, and that empty messages arrive.
void check_messages(comm::Communicator& comm);
/// Check broadcast from every root, with several lengths.
void check_broadcast(comm::Communicator& comm);
/// Check allgather with lengths that differ by rank and may be zero.
void check_allgather(comm::Communicator& comm);
/// Check allgather and alltoall of items: different numbers, no items, items without bytes, and many operations in flight.
void check_exchanges(comm::Communicator& comm);
/// Check that wrong splits, problems and different kinds cause the same error on all ranks, and that the communicator still
/// works.
void check_refused_exchanges(comm::Communicator& comm);
/// Check that no rank leaves a barrier before the last rank has entered it.
void check_barrier(comm::Communicator& comm);
/// Check split into even and odd ranks, in reversed order.
void check_split(comm::Communicator& comm);
/// Check that a failure on one or two ranks causes the same error on all ranks.
void check_agree(comm::Communicator& comm);

}  // namespace floodtide::test
