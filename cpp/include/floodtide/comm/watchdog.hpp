// SPDX-License-Identifier: Apache-2.0
// Ends a job in which ranks wait for one that does not come, and says for which.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "floodtide/comm/activity.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

struct WatchdogOptions {
  /// Called with the reason on the rank that ends the job, just before it does, on the watchdog's thread.
  std::function<void(const std::string& reason)> report = {};
  /// Called once for each wait that lasts `warn_s` and is still allowed, with the same text; 0: never.
  std::function<void(const std::string& reason)> warn = {};
  double warn_s = 60;
  /// What messages call the ranks of the communicator, and what ActivityLog::note_wait is told; empty: 0, 1, ...
  std::vector<int> numbers = {};
};

/// A thread on every rank that tells rank 0 a few times per time limit what its rank does, as the log has it.
///
/// Rank 0 ends the job if it has heard nothing of a rank for the limit: the rank is stopped, or its machine is lost. Rank 0
/// also ends the job if ranks wait in a collective for longer than the limit, and names the ranks that have not started it or
/// have left. A rank that computes while no other rank waits is left alone. Each rank's log holds the limit of that rank.
///
/// All other ranks watch rank 0. Rank 1 ends the job if rank 0 is silent. The others do so a moment later if rank 1 has not
/// told them that the job ends, because a cut cable may separate them from rank 1 too.
///
/// Before the job ends, all ranks that still can write their records. Processes of the job that still run seconds later are
/// killed (Communicator::end_host_within). Costs two messages of 464 bytes per rank and period.
class Watchdog {
 public:
  /// Collective: makes a communicator. `log` must outlive the watchdog. One rank: watches nothing, starts no thread.
  Watchdog(Communicator& comm, const ActivityLog& log, WatchdogOptions options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  Watchdog(Watchdog&&) = delete;
  Watchdog& operator=(Watchdog&&) = delete;
  ~Watchdog();  ///< stops watching, without a word to the others

  /// Tell the others that this rank starts no collective any more, and return at once. The thread watches on: this rank may be
  /// the one that ends the job when others wait for it.
  void leave();
  /// True once all ranks have left, or watching has ended otherwise.
  [[nodiscard]] bool over() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace floodtide::comm
