// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/comm/mpi.hpp"

namespace floodtide::test {

/// The library that the launcher's arguments name, with messages cut at 4 KiB so that long ones travel in parts.
[[nodiscard]] comm::MpiLibrary& mpi_library();
/// The world on that library.
[[nodiscard]] comm::Communicator& mpi_world();
/// The ranks that the launcher was asked for.
[[nodiscard]] int mpi_expected_ranks();

}  // namespace floodtide::test
