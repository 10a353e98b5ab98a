// SPDX-License-Identifier: Apache-2.0
// Ends a failed job on this host if the launcher does not. After the loss of a cable or of another host, MPI_Abort may hang or
// have no effect, and the launcher may wait for the lost host.
#pragma once

namespace floodtide::comm {

/// Start a small process that kills the job on this host if it still runs after `seconds`. Returns at once.
///
/// The small process watches this process and all other processes that the launcher of the job has started on this host. If one
/// of them still runs after `seconds`, it sends SIGTERM to the launcher, and SIGKILL to all of them half a second later.
/// Without a known launcher, it watches this process and its descendants only. Later calls in the same process do nothing.
void end_host_within(double seconds);

}  // namespace floodtide::comm
