// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/nn/network.hpp"

namespace floodtide::train {

/// Validate a network on `count` parts, of which rank r takes r, r + size, ...: calls body(part) for each, where body is what
/// prepare() returns. Collective. If one rank fails, all ranks throw AgreedError. Another thread that changes the network
/// meanwhile is such a failure.
template <class Prepare>
void validate_parts(nn::Network& network, std::int64_t count, comm::Communicator& communicator, const Progress& progress,
                    const Prepare& prepare) {
  comm::agree_after(communicator, [&] {
    network.parameters_changed();  // the caller may have written to them
    auto body = prepare();
    const std::uint64_t version = network.use().version();
    for (std::int64_t part = communicator.rank(); part < count; part += communicator.size()) {
      body(part);
      network.use().require_version(version, "validation");
      report(progress, part + 1, count);
    }
  });
}

/// Add the counts of all ranks. Collective.
template <class Counts>
void add_ranks(comm::Communicator& communicator, Counts& counts) {
  std::vector<std::int64_t> values(counts.values().begin(), counts.values().end());
  comm::allreduce(communicator, std::span(values), comm::ReduceOp::sum);
  counts.assign(values);
}

}  // namespace floodtide::train
