// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/base/named.hpp"
#include "floodtide/comm/activity.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/reducer.hpp"
#include "floodtide/optim/noise_scale.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/optim/scaling.hpp"
#include "floodtide/optim/schedule.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/train/walkers.hpp"

namespace floodtide::train {

/// What the bits of the results depend on, in addition to configuration and build.
enum class Exactness {
  run,     ///< the number of ranks: a run with the same ranks gives the same bits
  workers  ///< only the number of walkers: gradients are summed in fixed point (comm::ExactSum), after the backward pass
};
constexpr Names<Exactness, 2> names_of(Exactness) {
  return {"exactness", {{{"run", Exactness::run}, {"workers", Exactness::workers}}}};
}

/// What happens when a walker has used all examples of its shard.
enum class OnExhausted {
  cycle,  ///< the walker starts its next epoch
  join,   ///< the walker stops; gradients are averaged over the other walkers; training ends when all have stopped
  stop    ///< training ends after this step
};
constexpr Names<OnExhausted, 3> names_of(OnExhausted) {
  return {"on_exhausted", {{{"cycle", OnExhausted::cycle}, {"join", OnExhausted::join}, {"stop", OnExhausted::stop}}}};
}

/// Which gradients are used in an update of the parameters.
enum class Mode {
  synchronous,  ///< gradients of all ranks; ranks wait for each other
  partial       ///< gradients of the first `contributors` ranks that are ready; the update does not wait for other ranks
};
constexpr Names<Mode, 2> names_of(Mode) { return {"mode", {{{"synchronous", Mode::synchronous}, {"partial", Mode::partial}}}}; }

/// What happens to gradients that are ready too late for their update.
enum class Late {
  drop,  ///< they are dropped
  carry  ///< they are used in the next update
};
constexpr Names<Late, 2> names_of(Late) { return {"late", {{{"drop", Late::drop}, {"carry", Late::carry}}}}; }

struct TrainerOptions {
  double clip = 0.7;           ///< limit of each gradient's absolute value, above 0
  double clip_norm = 0;        ///< limit of the norm of the gradient, before `clip`; 0: none
  bool measure_noise = false;  ///< measure the gradient noise scale, also if the scaling rule does not need it
  double average = 0;          ///< decay of a moving average of the parameters; 0: none
  std::string algorithm = std::string(comm::kDefaultAllreduce);  ///< as in comm::AllreduceOptions
  int accumulate = 1;                                            ///< passes of each walker in one update
  OnExhausted on_exhausted = OnExhausted::cycle;                 ///< what happens when Walkers::exhausted() becomes true
  Exactness exactness = Exactness::run;
  Mode mode = Mode::synchronous;
  int contributors = 1;  ///< number of ranks in an update; Mode::partial only
  Late late = Late::drop;
  /// In Mode::partial, all ranks meet after `steps` updates, and after every `meet_every` updates (0: never).
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
  std::int64_t meet_every = 0;
  std::int64_t bucket_bytes = 256 * 1024;  ///< smallest size of a gradient bucket, as in comm::ReducerOptions
  comm::Wire wire = comm::Wire::native;    ///< format of the gradients in messages; Exactness::run only
  /// Receives the activity of this rank, for the watchdog of the job (comm::Watchdog); may be null.
  std::shared_ptr<comm::ActivityLog> activity;
  double timeout_s = 0;     ///< how long ranks may wait for each other while the trainer exists; 0: for ever
  std::string record_path;  ///< file for the last events of this rank if the job fails; empty: none
};

/// What a rank asks all ranks to do after a step. Clocks and signals differ between ranks. The requests are therefore sent with
/// the gradients, so that all ranks learn of them in the same step.
enum StepRequest : std::uint32_t { kNone = 0, kLog = 1, kCheckpoint = 2, kStop = 4, kRate = 8 };

/// Range of the factor that multiplies the learning rate of the schedule.
inline constexpr Limits kRateFactors{0, 1e6, true};

/// Result of a training step on one rank.
struct StepReport {
  std::int64_t step = 0;       ///< index of this step, from 0
  double loss = 0;             ///< mean over the examples of this rank
  double lr = 0;               ///< learning rate of this step
  double gradient_norm = 0;    ///< norm of the averaged gradient, before clipping; 0 in Mode::partial
  std::uint32_t requests = 0;  ///< union of the requests of all ranks
  bool met = true;             ///< true: all ranks are at the same step. Only then may collectives follow, or requests be set.
};

/// Data-parallel training. Every rank holds a full replica of the network and computes the examples of its walkers. The ranks
/// average their gradients in buckets during the backward pass. All ranks apply the same update.
///
/// The order of summation is fixed: the walkers of a rank in ascending order, then the order of the allreduce. A run with the
/// same ranks therefore gives the same bits, for any number of threads. This holds for Mode::synchronous.
///
/// Constructor, step() and load() are training steps as NetworkUse says: another thread may run forward passes of the network
/// meanwhile. If another thread trains the network, they throw Error(in_use) on all ranks.
///
/// `communicator` must outlive the trainer. All ranks must call the functions marked Collective in the same order.
class Trainer : Immovable {
 public:
  /// Broadcasts the parameters of rank 0 and checks that all ranks hold the same. Collective.
  /// If an option is outside its range on any rank, all ranks throw AgreedError(invalid_argument).
  Trainer(std::shared_ptr<Walkers> walkers, std::unique_ptr<optim::Optimizer> optimizer, optim::Schedule schedule,
          const optim::Scaling& scaling, comm::Communicator& communicator, const TrainerOptions& options);
  ~Trainer();

  /// Run one training step: one pass of every walker (`accumulate` passes), then one parameter update. Collective.
  ///
  /// If a rank fails, all ranks throw its error as an AgreedError. In Mode::partial, a rank may also throw alone. Throws
  /// Error(numerical) if a loss or an averaged gradient is not finite. The message names the step, and the walker and position,
  /// or the array. In Mode::synchronous, a step that throws does not change the parameters.
  StepReport step(std::uint32_t requests = kNone);

  /// Return the number of updates done so far, those before a resumed checkpoint included.
  [[nodiscard]] std::int64_t steps_done() const noexcept;

  /// Return the gradient noise scale (NoiseScale), or nothing if it is not measured or not known yet.
  [[nodiscard]] std::optional<optim::NoiseScale::Estimate> noise_scale() const;

  /// Multiply the rate of the schedule by `factor` from the next step on. The factor replaces the one before; checkpoints keep
  /// it. All ranks must call this between the same steps, with the same factor. Throws Error(invalid_argument) if the factor is
  /// not in kRateFactors.
  void set_rate_factor(double factor);
  /// Return the factor of the schedule's rate; 1 at the start.
  [[nodiscard]] double rate_factor() const noexcept;

  /// From step `pace.step` on, let the schedule of the rate and the decay of the average follow `pace`. All ranks must call
  /// this between the same steps, with the same pace. Checkpoints do not keep the pace. Throws Error(unsupported) unless the
  /// trainer has Mode::synchronous, and Error(invalid_argument) for a pace that does not go forward.
  void set_pace(const optim::Pace& pace);

  /// Replace the allreduce of gradient buckets by `hook`. Call this on all ranks. Throws Error(unsupported) unless the trainer
  /// has Mode::synchronous and Exactness::run.
  void set_bucket_hook(comm::BucketHook hook);
  /// Return an owner of the memory of all buckets (comm::Bucket::values), for a hook that keeps values beyond the trainer. Each
  /// step overwrites the values.
  [[nodiscard]] std::shared_ptr<const void> bucket_memory() const noexcept;

  /// From now on, write the events of this rank to the file `path` (Timeline::open), with the times of rank 0's clock. Each
  /// rank passes its own path. Collective. If a rank cannot open its file, all ranks throw AgreedError(io).
  void trace(const std::string& path);
  /// Record that the caller starts to do something between steps: "log" or "validation". Traces and records then show this
  /// activity. Return its number, for end_activity(). Throws Error(invalid_argument) for another name.
  std::uint64_t begin_activity(std::string_view name);
  void end_activity(std::uint64_t number);
  /// Append the latest events to the file of trace(). Throws Error(io).
  void flush_trace();
  /// Write the last events of this rank to options.record_path, unless it is empty. Throws Error(io).
  void record_failure(const std::string& reason) const;

  /// Return the moving average of the parameters. It is the same on all ranks after a step with StepReport::met. Throws
  /// Error(invalid_argument) if options.average is 0.
  [[nodiscard]] std::span<const float> average() const;

  /// Return the metrics since the last call, summed over all ranks. Collective.
  [[nodiscard]] Metrics take_metrics();

  /// Write a checkpoint: all state that is needed to resume the run, and two texts. Collective.
  ///
  /// The texts are the `configuration`, and `statistics` of the training volumes, which are left out if they are empty.
  /// Rank 0 writes the file under a temporary name, then renames it. If it cannot, all ranks throw AgreedError(io), and an
  /// older file with this name stays unchanged. Call check_replicas() before, so that no damaged parameters are saved.
  void save(const std::string& path, const std::string& configuration, const std::string& statistics = "");
  /// Resume from a checkpoint, on any number of ranks. Collective.
  ///
  /// All ranks throw AgreedError(invalid_file) if the file is damaged, has another format version, or was written with another
  /// network, number of walkers or optimizer. If ranks read different checkpoints, all throw AgreedError(communication). In
  /// both cases the trainer does not change on any rank.
  void load(const std::string& path);

  /// Check that all ranks hold the same parameters, average and optimizer state, by their hashes. Collective.
  ///
  /// Throws AgreedError(communication) on all ranks if they differ. The message names what differs, and the ranks that differ
  /// from the majority. Does nothing while ranks may be at different steps (StepReport::met). Overhead: an allreduce of 48
  /// bytes.
  void check_replicas();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace floodtide::train
