// SPDX-License-Identifier: Apache-2.0
// What every transport must do; run by the unit tests over threads and under mpiexec over each MPI plug-in. Every check is
// Collective and reports by GoogleTest's macros on the rank that sees the failure.
#pragma once

#include "floodtide/comm/communicator.hpp"

namespace floodtide::test {

/// Every algorithm that the transport has x element types but float16 x sum, min, max, product x lengths from 0 over the number
/// of ranks and primes, in many segments, and 472,353 floats, against sums in a wider type; and all ranks hold the same bits.
/// Sums of whole numbers are exact.
void check_allreduce(comm::Communicator& comm, bool has_library_allreduce);
/// The same of float16, against doubles; the library has none, and says so on every rank.
void check_half_allreduce(comm::Communicator& comm, bool has_library_allreduce);
/// Five million floats and 1,000,003 (a prime) doubles and int64 by every algorithm.
void check_long_allreduce(comm::Communicator& comm, bool has_library_allreduce);
/// bf16 on the wire: errors within the bound of as many roundings as the algorithm makes, all ranks the same bits, and exactly
/// half the bytes of float32.
void check_narrow_wire(comm::Communicator& comm);
/// What an allreduce sends is what its schedule says.
void check_traffic(comm::Communicator& comm);
/// Every algorithm with emulated nodes of 1, 2, 3 ranks; other ranks per node must not have been asked for before.
void check_two_levels(comm::Communicator& comm);
/// Many operations of several kinds in flight, completed in another random order on each rank.
void check_concurrent_operations(comm::Communicator& comm, bool has_library_allreduce);
/// Blocks cut evenly, unevenly and empty.
void check_reduce_scatter(comm::Communicator& comm);
/// Types, operations, lengths, shapes in words, algorithms, roots, collectives, ... that differ between ranks, many times each:
/// every rank throws the same line, no array is changed, and the next collective works.
void check_disagreements(comm::Communicator& comm, bool has_library_allreduce);
/// The same, among operations in flight that do not differ, and in another order on every second rank.
void check_disagreements_in_flight(comm::Communicator& comm);
/// Collectives that are compared as one: their results, and ranks that differ in their number or in one of them.
void check_groups(comm::Communicator& comm);
/// Disagreements while a rank has joined; and collectives that need its values.
void check_disagreements_with_joined(comm::Communicator& comm, bool has_library_allreduce);
/// Ranks that join at different times: the others' collectives go on without them.
void check_join(comm::Communicator& comm);
/// The measured table is the same on all ranks, quickly made, and used by "auto".
void check_measured_table(comm::Communicator& comm);
/// A rank that waits for a late one leaves its core to others.
void check_waiting_is_cheap(comm::Communicator& comm);
/// Messages of one tag keep their order, other tags do not disturb them, and empty messages arrive.
void check_messages(comm::Communicator& comm);
/// From every root, several lengths.
void check_broadcast(comm::Communicator& comm);
/// Lengths that differ by rank, and some that are zero.
void check_allgather(comm::Communicator& comm);
/// To every root: lengths that differ by rank, some of them zero; bytes in several pieces; no byte travels twice.
void check_gather(comm::Communicator& comm);
/// Allgather and alltoall of items that only their senders know: uneven, empty, without bytes; many in flight.
void check_exchanges(comm::Communicator& comm);
/// Wrong splits, problems and kinds that differ are one error on all ranks, after which the communicator works.
void check_refused_exchanges(comm::Communicator& comm);
/// Nobody leaves before the last one has come.
void check_barrier(comm::Communicator& comm);
/// Even and odd ranks apart, in reversed order.
void check_split(comm::Communicator& comm);
/// A failure on one or two ranks becomes the same error on all.
void check_agree(comm::Communicator& comm);

}  // namespace floodtide::test
