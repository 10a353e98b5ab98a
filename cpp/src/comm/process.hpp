// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/base/error.hpp"
#include "floodtide/base/own_process.hpp"

namespace floodtide::comm {

/// Throws Error(unsupported) in a child that fork() has made of this process: only the parent is a rank.
inline void require_own_process(const OwnProcess& process) {
  FLOODTIDE_REQUIRE(
      process.is_here(), unsupported,
      "this process is a child (fork) of a rank: it takes part in no collective; expected a call on the rank itself,"
      " or processes that are started by mpiexec");
}

}  // namespace floodtide::comm
