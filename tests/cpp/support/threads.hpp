// SPDX-License-Identifier: Apache-2.0
// Transport `threads`: ranks are threads of one process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// Return `size` ranks of this process. Use each one on a separate thread. Throws Error(invalid_argument) if `size` is below 1.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> threads(int size);

/// Run body(communicator) on `size` threads, one per rank, and wait until all have ended. If a rank throws, calls of the other
/// ranks fail with an Error(communication) that names this rank, and run_threads rethrows the first exception.
void run_threads(int size, const std::function<void(Communicator&)>& body);

}  // namespace floodtide::comm
