// SPDX-License-Identifier: Apache-2.0
// What the implementations of collectives and transports share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "floodtide/base/error.hpp"
#include "floodtide/base/own_process.hpp"
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

/// Tag of the messages with which ranks compare collectives (agreement.hpp).
inline constexpr int kNoticeTag = kFirstCollectiveTag;
/// Number of tags of collectives. Collectives in flight on a communicator have different tags, so that their messages cannot
/// mix.
inline constexpr int kMostOperations = 1024;

/// Return the tag of the n-th collective of a communicator.
[[nodiscard]] constexpr int operation_tag(std::int64_t number) {
  return kNoticeTag + 1 + static_cast<int>(number % kMostOperations);
}
static_assert(kNoticeTag + kMostOperations <= kLastTag);

/// Throws Error(unsupported) in a child that fork() has made of this process: only the parent is a rank.
inline void require_own_process(const OwnProcess& process) {
  FLOODTIDE_REQUIRE(
      process.is_here(), unsupported,
      "this process is a child (fork) of a rank: it takes part in no collective; expected a call on the rank itself,"
      " or processes that are started by mpiexec");
}

}  // namespace floodtide::comm
