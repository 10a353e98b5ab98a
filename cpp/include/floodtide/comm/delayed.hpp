// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// A wire between the ranks of one machine, slower than the one that they have.
struct WireDelay {
  double latency_s = 0;
  double bytes_per_s = 0;  ///< that leave a rank, one message after another; 0: no limit
};

/// The same ranks behind such a wire, for benchmarks: a message arrives latency_s after its last byte has left its sender, and
/// not before it would have without the wire. Nothing computes or waits in the meantime: messages travel at once, with the time
/// (of the machine's one monotonic clock) from which the receiver admits to have them. Has no allreduce of the library. Takes
/// on_wait from `comm`; later changes there do not count here, and `comm` may be used and destroyed as if this were not there.
/// Collective. Throws Error(invalid_argument) for negative numbers.
[[nodiscard]] std::unique_ptr<Communicator> delayed(Communicator& comm, const WireDelay& delay);

}  // namespace floodtide::comm
