// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// A simulated network between ranks that are on one machine.
struct WireDelay {
  double latency_s = 0;    ///< seconds from the last byte's departure to the arrival of the message
  double bytes_per_s = 0;  ///< bandwidth of each sender, which sends one message after another; 0: no limit
};

/// Return a communicator of the same ranks whose messages take the time of a slower network. For benchmarks. Collective.
///
/// Each message is sent at once, together with its simulated time of arrival. The receiver reports the message as complete only
/// after this time. No thread computes or waits to simulate the delay. All ranks must be on one machine, because they compare
/// times of its monotonic clock.
///
/// The result has no library allreduce. It copies on_wait of `comm`, and is otherwise independent of `comm`.
/// Throws Error(invalid_argument) for negative numbers.
[[nodiscard]] std::unique_ptr<Communicator> delayed(Communicator& comm, const WireDelay& delay);

}  // namespace floodtide::comm
