// SPDX-License-Identifier: Apache-2.0
// What ends a failed job on this host if its launcher does not: after a cable or another host is lost, MPI_Abort reaches
// nobody, or hangs, and launchers wait for hosts that are gone.
#pragma once

namespace floodtide::comm {

/// Starts a small process that looks on until this process and all others that the job's launcher has started on this host are
/// gone. If one is there after `seconds`, it ends the launcher (SIGTERM), and half a second later all of them (SIGKILL).
/// Without a launcher that is known it ends this process and its children. Returns at once; only the first call of a process
/// counts.
void end_host_within(double seconds);

}  // namespace floodtide::comm
