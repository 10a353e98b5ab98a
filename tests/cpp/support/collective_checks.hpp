// SPDX-License-Identifier: Apache-2.0
// What every transport must do; run by the unit tests over threads and under mpiexec over each MPI plug-in. Every check is
// Collective and reports by GoogleTest's macros on the rank that sees the failure.
#pragma once

#include "floodtide/comm/communicator.hpp"

namespace floodtide::test {

/// Every algorithm that the transport has x float, double, int64 x sum, min, max x lengths from 0 over the number of ranks and
/// a prime to one of several segments, against sums in a wider type; and all ranks hold the same bits.
void check_allreduce(comm::Communicator& comm, bool has_library_allreduce);
/// Messages of one tag keep their order, other tags do not disturb them, and empty messages arrive.
void check_messages(comm::Communicator& comm);
/// From every root, several lengths.
void check_broadcast(comm::Communicator& comm);
/// Lengths that differ by rank, and some that are zero.
void check_allgather(comm::Communicator& comm);
/// Nobody leaves before the last one has come.
void check_barrier(comm::Communicator& comm);
/// Even and odd ranks apart, in reversed order.
void check_split(comm::Communicator& comm);
/// A failure on one or two ranks becomes the same error on all.
void check_agree(comm::Communicator& comm);

}  // namespace floodtide::test
