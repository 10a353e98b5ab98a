// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "floodtide/base/limits.hpp"
#include "floodtide/base/named.hpp"
#include "floodtide/comm/activity.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/reducer.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/optim/schedule.hpp"
#include "floodtide/train/metrics.hpp"
#include "floodtide/train/walkers.hpp"

namespace floodtide::train {

/// What the bits of a run depend on, beside configuration and build.
enum class Exactness {
  run,     ///< on the number of ranks: the same run gives the same bits
  workers  ///< on the number of walkers only: gradients are summed as fixed-point numbers (comm::ExactSum), after backward
};
constexpr Names<Exactness, 2> names_of(Exactness) {
  return {"exactness", {{{"run", Exactness::run}, {"workers", Exactness::workers}}}};
}

/// What happens when a walker has been through its shard.
enum class OnExhausted {
  cycle,  ///< it begins its next epoch
  join,   ///< it leaves; gradients are averaged over those that are left; training ends with the last one
  stop    ///< training ends after this step
};
constexpr Names<OnExhausted, 3> names_of(OnExhausted) {
  return {"on_exhausted", {{{"cycle", OnExhausted::cycle}, {"join", OnExhausted::join}, {"stop", OnExhausted::stop}}}};
}

/// Whose gradients make an update.
enum class Mode {
  synchronous,  ///< all ranks': they wait for each other
  partial,      ///< those of the first `contributors` ranks that are ready; the others are not waited for
  asynchronous  ///< each rank's, as soon as they are there, at a parameter server on rank 0: what synchronous is compared with
};
constexpr Names<Mode, 3> names_of(Mode) {
  return {"mode", {{{"synchronous", Mode::synchronous}, {"partial", Mode::partial}, {"asynchronous", Mode::asynchronous}}}};
}

/// What becomes of gradients that come after the update that they were for was made without them.
enum class Late {
  drop,  ///< nothing
  carry  ///< they go into the next one
};
constexpr Names<Late, 2> names_of(Late) { return {"late", {{{"drop", Late::drop}, {"carry", Late::carry}}}}; }

struct TrainerOptions {
  double clip = 0.7;
  double average = 0;                                            ///< decay of a moving average of the parameters; 0: none
  std::string algorithm = std::string(comm::kDefaultAllreduce);  ///< as in comm::AllreduceOptions
  int accumulate = 1;                                            ///< passes of each walker whose gradients make one update
  OnExhausted on_exhausted = OnExhausted::cycle;                 ///< once Walkers::exhausted()
  Exactness exactness = Exactness::run;
  Mode mode = Mode::synchronous;
  int contributors = 1;  ///< ranks; Mode::partial only
  Late late = Late::drop;
  /// All ranks meet after that many updates, and every meet_every ones (0: not); in other modes than Mode::synchronous they
  /// do not at every step.
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
  std::int64_t meet_every = 0;
  std::int64_t bucket_bytes = 256 * 1024;  ///< least size of the parts in which gradients are summed while backward goes on
  comm::Wire wire = comm::Wire::native;    ///< of the gradients; Exactness::run only
  /// Keeps what this rank does, for the job's watchdog (comm::Watchdog); may be null.
  std::shared_ptr<comm::ActivityLog> activity;
  double timeout_s = 0;     ///< how long ranks may wait for each other while the trainer lives; 0: for ever
  std::string record_path;  ///< where this rank records its last events when the job fails
};

/// What a rank asks all ranks to do after a step. Times and signals differ between ranks, so requests travel with the
/// gradients: a rank asks, and all ranks learn it in the same step.
enum StepRequest : std::uint32_t { kNone = 0, kLog = 1, kCheckpoint = 2, kStop = 4, kRate = 8 };

/// The numbers that a schedule's rate may be multiplied by.
inline constexpr Limits kRateFactors{0, 1e6, true};

struct StepReport {
  std::int64_t step = 0;       ///< number of this step, counted from 0
  double loss = 0;             ///< mean over this rank's examples
  double lr = 0;               ///< rate of this update
  std::uint32_t requests = 0;  ///< union of what all ranks asked for
  bool met = true;             ///< all ranks are at the same step: only then may collectives follow, or requests be set
};

/// Data-parallel training. Every rank holds a full replica of the network, works on the examples of its walkers, averages
/// gradients with the others, bucket by bucket while backward goes on, and applies the same update. The order of summation is
/// fixed (walkers of a rank ascending, then the allreduce's order), so a run with the same ranks repeats bit for bit, whatever
/// the number of threads.
///
/// References must outlive the trainer. All functions marked Collective are called by all ranks in the same order.
class Trainer {
 public:
  /// Broadcasts rank 0's parameters and checks that all ranks hold the same. Collective.
  /// Throws Error(invalid_argument) for options outside their ranges.
  Trainer(std::shared_ptr<Walkers> walkers, std::unique_ptr<optim::Optimizer> optimizer,
          std::unique_ptr<optim::Schedule> schedule, comm::Communicator& communicator, const TrainerOptions& options);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  Trainer(Trainer&&) = delete;
  Trainer& operator=(Trainer&&) = delete;
  ~Trainer();

  /// One pass of every walker (or `accumulate`), one update. Collective. Throws Error(numerical) on all ranks if a loss or
  /// gradient is not finite, naming step, walker and position, and the failing rank's error on all ranks if one of them fails.
  /// The parameters are then those of the step before.
  StepReport step(std::uint32_t requests = kNone);

  /// Updates done so far, also those before a resumed checkpoint.
  [[nodiscard]] std::int64_t steps_done() const noexcept;

  /// Multiply the schedule's rate by `factor` from the next step on, instead of by the factor before. Checkpoints keep it. All
  /// ranks call it between the same steps, with the same factor. Throws Error(invalid_argument) if it is not in kRateFactors.
  void set_rate_factor(double factor);
  /// Return the factor that the schedule's rate is multiplied by; 1 at the start.
  [[nodiscard]] double rate_factor() const noexcept;

  /// Has the hook sum the gradients' buckets instead of an allreduce. On all ranks. Throws Error(unsupported) for
  /// Exactness::workers.
  void set_bucket_hook(comm::BucketHook hook);

  /// Writes what this rank does to a file of its own from now on (Timeline::open), in rank 0's time. Collective. Throws
  /// Error(io) on all ranks.
  void trace(const std::string& path);
  /// Notes what the caller does between steps, "log" or "validation", so that traces and records show it; the number ends it.
  /// Throws Error(invalid_argument) for another name.
  std::uint64_t begin_activity(std::string_view name);
  void end_activity(std::uint64_t number);
  /// Brings that file up to date. Throws Error(io).
  void flush_trace();
  /// Writes this rank's last events to options.record_path, if there is one. Throws Error(io).
  void record_failure(const std::string& reason) const;

  /// The moving average of the parameters, the same on all ranks. Throws Error(invalid_argument) if the trainer keeps none.
  [[nodiscard]] std::span<const float> average() const;

  /// Counts and sums since the last call, over all ranks. Collective.
  [[nodiscard]] Metrics take_metrics();

  /// Writes everything that a run needs to go on; rank 0 writes, beside the name and then renamed. `configuration` is kept as
  /// text. Collective. Throws Error(io) on all ranks if rank 0 cannot write; an older file of that name stays as it was.
  /// Call check_replicas() before: what one of the ranks damaged is not worth keeping.
  void save(const std::string& path, const std::string& configuration);
  /// Goes on from such a file, on any number of ranks. Collective. Throws Error(invalid_file) if the file is damaged, of
  /// another version, another network, another number of walkers or another optimizer.
  void load(const std::string& path);

  /// Compares hashes of the parameters, their average and, where every rank updates, the optimizer's state over all ranks.
  /// Throws AgreedError(communication) on all ranks, naming what differs and the ranks that are not like most. Collective; does
  /// nothing while ranks are at different steps, as they may be in other modes than Mode::synchronous. One message of 48 bytes.
  void check_replicas();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::train
