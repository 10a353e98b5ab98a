// SPDX-License-Identifier: Apache-2.0
// Check that all ranks hold the same parameters, as data-parallel training requires. The check takes a small allreduce.
#pragma once

#include <cstdint>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::train {

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
