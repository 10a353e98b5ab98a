// SPDX-License-Identifier: Apache-2.0
// Data-parallel training is right only while all ranks hold the same parameters. Comparing them costs one small message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::train {

/// 64-bit hash of some bytes, begun with that of others. Two inputs that differ in one element of eight bytes or less never
/// have the same hash; others have with probability 2^-64. Pieces of fixed length are hashed on all threads, and then their
/// hashes in order, so the hash does not depend on the number of threads.
[[nodiscard]] std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t start = 0);

/// Hashes of what should be the same on all ranks.
struct ReplicaHashes {
  std::uint64_t parameters = 0;
  std::uint64_t average = 0;
  std::uint64_t optimizer = 0;
};

/// Throws comm::AgreedError(communication) on all ranks unless all have the same hashes; it names what differs first and the
/// ranks that are not like most others. Collective.
void require_equal(comm::Communicator& communicator, const ReplicaHashes& hashes, std::int64_t step);

}  // namespace floodtide::train
