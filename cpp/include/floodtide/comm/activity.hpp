// SPDX-License-Identifier: Apache-2.0
// What a rank does now and what it waits for. The watchdogs of the ranks exchange this information.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/timeline.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// What a rank does at one moment. The bytes are sent unchanged, because all ranks of a job run the same program.
struct Activity {
  std::int64_t step = -1;              ///< training step; -1: none
  std::int64_t bucket = -1;            ///< gradient bucket; -1: none
  std::int64_t number = -1;            ///< number of the collective that the rank waits in; -1: none
  double for_s = 0;                    ///< how long the rank has waited without sending or finishing anything
  double limit_s = 0;                  ///< how long the rank may wait; 0: for ever
  std::int32_t waits = 0;              ///< 1: the rank waits in a collective
  std::int32_t training = 0;           ///< 1: a training sets the limit
  std::array<char, 32> doing{};        ///< what the training does: "compute", "allreduce"
  std::array<char, 208> collective{};  ///< "collective 17, barrier"
  std::array<char, 160> ranks{};       ///< ranks of the collective: "0, 2-5"; empty: all
};
static_assert(sizeof(Activity) == 448);

/// Return the ranks in a text such as "0, 2-5". Return an empty list for a text that is empty or incomplete.
[[nodiscard]] std::vector<int> ranks_in(std::string_view text);

/// Record of what this rank does. Any thread may call any function.
class ActivityLog : Immovable {
 public:
  /// Set how long this rank may wait in a collective, in seconds, while no Training object exists. 0: for ever.
  /// Throws Error(invalid_argument) if `limit_s` is negative.
  void set_limit(double limit_s);
  /// Return the limit of the newest Training object, or without one the limit of set_limit, in seconds.
  [[nodiscard]] double limit_s() const;

  /// Call this repeatedly while this rank waits on `comm` (Communicator::set_on_wait). `ranks` as in Activity.
  void note_wait(const Communicator& comm, std::string_view ranks);
  /// Leave the last `seconds` out of all waits, because this process was stopped in this time.
  void leave_out(double seconds);
  /// Forget waits that were not noted for a second. Call this often, but not after this process was stopped: its waits go on.
  void forget_waits_over();

  /// A training run. While the object exists, its timeline tells what this rank does, and its limit replaces that of set_limit.
  class Training : Immovable {
   public:
    /// References must outlive this object. record() writes the last events of the timeline to `record_path`; empty: nowhere.
    /// Throws Error(invalid_argument) if `limit_s` is negative.
    Training(ActivityLog& log, const Timeline& timeline, double limit_s, std::string record_path);
    ~Training();

   private:
    friend class ActivityLog;
    ActivityLog& log_;
    const Timeline& timeline_;
    double limit_s_;
    std::string record_path_;
  };

  /// Return what this rank does now.
  [[nodiscard]] Activity now() const;
  /// Writes the last events of all trainings (Timeline::dump). Returns the message of the last error, or an empty text.
  [[nodiscard]] std::string record(int rank, std::string_view reason) const;

 private:
  struct Wait {
    std::string collective;
    std::string ranks;
    std::int64_t sent = 0;  // messages sent so far: a rank that still sends does not hang
    std::int64_t step = -1;
    std::int64_t bucket = -1;
    double since_s = 0;
    double seen_s = 0;
  };
  /// Newest events that have not ended, of the newest training that has one.
  struct Place {
    std::optional<Timeline::Event> communication;
    std::optional<Timeline::Event> within;
  };

  [[nodiscard]] Place place() const;

  mutable std::mutex mutex_;
  double limit_s_ = 0;
  std::vector<const Training*> trainings_;  // oldest first
  std::map<const Communicator*, Wait> waits_;
};

}  // namespace floodtide::comm
