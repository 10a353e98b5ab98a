// SPDX-License-Identifier: Apache-2.0
// What a rank does now, and what it waits for: what the watchdogs of the ranks tell each other.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/timeline.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {

/// What a rank does at one moment. Travels as it is: all ranks of a job are the same program.
struct Activity {
  std::int64_t step = -1;              ///< of a training; -1: none
  std::int64_t bucket = -1;            ///< of its gradients; -1: none
  std::int64_t number = -1;            ///< of the collective that the rank waits in; -1: none
  double for_s = 0;                    ///< how long it has been waiting without sending or finishing anything
  double limit_s = 0;                  ///< how long it may wait; 0: for ever
  std::int32_t waits = 0;              ///< 1: in a collective
  std::int32_t training = 0;           ///< 1: a training sets the limit
  std::array<char, 32> doing{};        ///< what the training does: "compute", "allreduce"
  std::array<char, 208> collective{};  ///< "collective 17, barrier"
  std::array<char, 160> ranks{};       ///< the ranks that it waits with: "0, 2-5"; empty: all
};
static_assert(sizeof(Activity) == 448);

/// The numbers in a text such as "0, 2-5". A text that was cut off, or is none, gives an empty list.
[[nodiscard]] std::vector<int> ranks_in(std::string_view text);

/// Keeps what this rank does. Any thread may call any function.
class ActivityLog {
 public:
  ActivityLog() = default;
  ActivityLog(const ActivityLog&) = delete;
  ActivityLog& operator=(const ActivityLog&) = delete;
  ActivityLog(ActivityLog&&) = delete;
  ActivityLog& operator=(ActivityLog&&) = delete;
  ~ActivityLog() = default;

  /// How long this rank may wait in a collective while no training is under way; 0: for ever.
  void set_limit(double limit_s);
  [[nodiscard]] double limit_s() const;

  /// Call this repeatedly while this rank waits on `comm` (Communicator::set_on_wait). `ranks` as in Activity.
  void note_wait(const Communicator& comm, std::string_view ranks);

  /// A training, as long as it lives: it names what this rank does, sets the limit, and may want its last events on disk.
  class Training {
   public:
    /// References must outlive this object. `record_path` is where the events go when the job is ended; empty: nowhere.
    Training(ActivityLog& log, const Timeline& timeline, double limit_s, std::string record_path);
    Training(const Training&) = delete;
    Training& operator=(const Training&) = delete;
    Training(Training&&) = delete;
    Training& operator=(Training&&) = delete;
    ~Training();

   private:
    friend class ActivityLog;
    ActivityLog& log_;
    const Timeline& timeline_;
    double limit_s_;
    std::string record_path_;
  };

  [[nodiscard]] Activity now() const;
  /// Writes the last events of the trainings (Timeline::dump). Returns what failed, empty if nothing did.
  [[nodiscard]] std::string record(int rank, std::string_view reason) const;

 private:
  struct Wait {
    std::string collective;
    std::string ranks;
    std::int64_t sent = 0;  // messages by then: whoever sends has not stalled
    std::int64_t step = -1;
    std::int64_t bucket = -1;
    double since_s = 0;
    double seen_s = 0;
  };
  /// What the newest training that does anything does: its communication, and what of a step it is in.
  struct Place {
    std::optional<Timeline::Event> communication;
    std::optional<Timeline::Event> within;
  };

  [[nodiscard]] Place place() const;

  mutable std::mutex mutex_;
  double limit_s_ = 0;
  std::vector<const Training*> trainings_;  // the newest last
  std::map<const Communicator*, Wait> waits_;
};

}  // namespace floodtide::comm
