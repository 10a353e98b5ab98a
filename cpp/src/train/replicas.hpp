// SPDX-License-Identifier: Apache-2.0
// Check that all ranks hold the same parameters, as data-parallel training requires. The check takes a small allreduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::train {

/// Return a 64-bit hash of `bytes`. `start` is the hash of preceding bytes.
///
/// Two inputs that differ in one aligned word of eight bytes always have different hashes. Other different inputs have the same
/// hash with a probability of about 2^-64. Pieces of fixed length are hashed on all threads, and then combined in order, so
/// that the hash does not depend on the number of threads.
[[nodiscard]] std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t start = 0);

/// Hashes of what should be the same on all ranks.
struct ReplicaHashes {
  std::uint64_t parameters = 0;
  std::uint64_t average = 0;
  std::uint64_t optimizer = 0;
};

/// Throws comm::AgreedError(communication) on all ranks unless all ranks have the same hashes. The message names the first
/// state that differs, and the ranks that differ from the majority. Collective.
void require_equal(comm::Communicator& communicator, const ReplicaHashes& hashes, std::int64_t step);

}  // namespace floodtide::train
