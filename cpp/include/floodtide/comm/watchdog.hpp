// SPDX-License-Identifier: Apache-2.0
// Ends a job in which a rank hangs, and says which one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "floodtide/base/timeline.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

struct WatchdogOptions {
  double timeout_s = 300;  ///< a rank that is silent, or waited for, this long ends the job
  /// Told the reason on the rank that ends the job, just before it does, on the watchdog's thread.
  std::function<void(const std::string& reason)> report;
  /// Where this rank's record of its last events goes (Timeline::dump) when the job ends so; empty: nowhere.
  std::string record_path;
};

/// A thread on every rank that tells rank 0 a few times per timeout what its rank does, as the timeline has it (tracks
/// `communication` and `step`). Rank 0 ends the job when a rank has not been heard of for the timeout: stopped, or its machine
/// lost; and when ranks wait for longer than that in a collective, naming those that are not in it, or that left. Rank 1
/// watches rank 0. Before the end all ranks that still can write their records. Costs one message of 64 bytes a rank and
/// period.
class Watchdog {
 public:
  /// Collective (makes a communicator of its own). References must outlive the watchdog. One rank: watches nothing.
  /// Throws Error(invalid_argument) for a timeout that is not positive.
  Watchdog(Communicator& comm, const Timeline& timeline, WatchdogOptions options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  Watchdog(Watchdog&&) = delete;
  Watchdog& operator=(Watchdog&&) = delete;
  ~Watchdog();  ///< tells the others that this rank leaves; to be destroyed on all ranks

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace floodtide::comm
