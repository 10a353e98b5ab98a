// SPDX-License-Identifier: Apache-2.0
// Ends a job if ranks wait too long for another rank, and reports which rank they wait for.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/comm/activity.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

struct WatchdogOptions {
  /// Called with the reason on the rank that ends the job, just before the end, on the thread of the watchdog. Also called with
  /// the error message if a record cannot be written.
  std::function<void(const std::string& reason)> report = {};
  /// Called on rank 0, once for each wait that lasts longer than `warn_s` but not longer than its limit.
  std::function<void(const std::string& reason)> warn = {};
  double warn_s = 60;  ///< seconds; 0: never warn
  /// Numbers of the ranks in messages and in ActivityLog::note_wait; empty: 0, 1, ...
  std::vector<int> numbers = {};
};

/// A thread on every rank. It sends the activity of its rank to rank 0, several times per time limit.
///
/// Rank 0 ends the job if it has heard nothing of a rank for the limit: the rank is stopped, or its machine is lost. Rank 0
/// also ends the job if ranks wait in a collective for longer than the limit. It then names the ranks that have not started the
/// collective, or have left. A rank may compute for any time while no other rank waits. Each rank's log holds the limit of that
/// rank.
///
/// All other ranks watch rank 0. Rank 1 ends the job if rank 0 is silent. The other ranks end it a moment later, unless rank 1
/// has told them that the job ends: a cut cable may separate them from rank 1, too.
///
/// Before the job ends, all ranks that still can write their records. Processes of the job that still run a few seconds later
/// are killed (Communicator::end_host_within). Overhead: two messages of 464 bytes per rank and period.
class Watchdog : Immovable {
 public:
  /// Starts to watch. Collective, because it makes a communicator. `log` must outlive the watchdog. With one rank, the watchdog
  /// does nothing and starts no thread.
  Watchdog(Communicator& comm, ActivityLog& log, WatchdogOptions options);
  ~Watchdog();  ///< stops watching; does not tell the other ranks

  /// Tell the other ranks that this rank will start no more collectives. Returns at once. The thread continues to watch: this
  /// rank may have to end the job if other ranks wait for it.
  void leave();
  /// True if all ranks have left, or if watching has ended for another reason.
  [[nodiscard]] bool over() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace floodtide::comm
