// SPDX-License-Identifier: Apache-2.0
// Ends a failed job on this host if the launcher does not. After the loss of a cable or of another host, MPI_Abort may hang or
// have no effect, and the launcher may wait for the lost host.
#pragma once

namespace floodtide::comm {

/// Starts a small process that watches this process and all others that the job's launcher has started on this host. If one of
/// them still runs after `seconds`, the small process ends the launcher (SIGTERM), and half a second later all of them
/// (SIGKILL). If this process has no known launcher, only this process and its children are ended. Returns at once. Later calls
/// in the same process do nothing.
void end_host_within(double seconds);

}  // namespace floodtide::comm
