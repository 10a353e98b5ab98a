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

/// A thread on every rank that tells rank 0 a few times per time limit what its rank does, as the log has it. Rank 0 ends the
/// job when a rank has not been heard of for the limit: stopped, or its machine lost; and when ranks wait for longer than that
/// in a collective, naming those that are not in it, or that left. All ranks watch rank 0: rank 1 ends the job when rank 0 is
/// silent, the others do so a moment later, if nobody has told them by then, because they may be the only ones on their side of
/// a cut cable. Each rank's log says what limit holds there; a rank that computes while no other waits is left alone. Before
/// the end all ranks that still can write their records. What is left of the job on a rank's host seconds later is killed
/// (Communicator::end_host_within). Costs two messages of 464 bytes per rank and period.
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
