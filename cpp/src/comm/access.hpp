// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// What the implementation of collectives does with a communicator, and no other code may.
struct CommunicatorAccess {
  /// Return the state of the collectives.
  [[nodiscard]] static Engine& engine(Communicator& comm) noexcept { return *comm.engine_; }
  /// Send a notice, see Traffic.
  [[nodiscard]] static std::unique_ptr<Request> send_notice(Communicator& comm, int to, std::span<const std::byte> data) {
    return comm.send_notice(to, data);
  }
  /// Exchange the names of nodes, after all ranks have agreed to do so.
  static void locate(Communicator& comm) { comm.locate(); }
};

[[nodiscard]] inline Engine& engine_of(Communicator& comm) noexcept { return CommunicatorAccess::engine(comm); }

}  // namespace floodtide::comm
