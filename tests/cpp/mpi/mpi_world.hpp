// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/comm/mpi.hpp"

namespace floodtide::test {

/// Return the MPI library that the arguments of the program name. Messages are split at 4 KiB, so that long messages are
/// tested.
[[nodiscard]] comm::MpiLibrary& mpi_library();
/// Return the communicator of all ranks on this library.
[[nodiscard]] comm::Communicator& mpi_world();
/// Return the number of ranks from the arguments of the program.
[[nodiscard]] int mpi_expected_ranks();

}  // namespace floodtide::test
