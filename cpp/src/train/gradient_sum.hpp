// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/timeline.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/train/trainer.hpp"
#include "train/exchange.hpp"
#include "train/updates.hpp"

namespace floodtide::train {

/// What the gradients of a step are made of. The references outlive every user.
struct StepParts {
  Walkers& walkers;
  comm::Communicator& communicator;
  const TrainerOptions& options;
  Timeline& timeline;
  std::span<float> message;  ///< flags, then the gradients of all arrays
  std::int64_t examples;     ///< number of examples in an update, over all ranks
  bool measures_noise;

  [[nodiscard]] std::span<float> flags() const { return message.first(kFlags); }
  [[nodiscard]] std::span<float> gradients() const { return message.subspan(kFlags); }
  [[nodiscard]] double scale() const { return 1.0 / static_cast<double>(examples); }
};

/// Computes the gradients of a step on this rank, and sums them over ranks. This class itself makes no sum: in Mode::partial,
/// a GradientExchange takes the gradients of each rank.
class GradientSum : Immovable {
 public:
  explicit GradientSum(const StepParts& parts) : parts_(parts) {}
  virtual ~GradientSum() = default;

  /// Call this once, before the first step. Collective.
  virtual void connect() {}
  /// Starts a step. The caller has filled the message with zeros.
  virtual void begin(std::int64_t) {}
  /// Computes a pass of the walkers, of which `ready` have examples. `last`: the last pass of the step.
  virtual void compute(std::int64_t ready, bool last, const nn::SumOverRanks& sum);
  /// Call this after the last pass. `examples` is their number on this rank.
  virtual void end_passes(std::int64_t) {}
  /// Sums flags and gradients over ranks. If a rank has failed, only the flags are right afterwards. Returns the seconds that
  /// this rank has waited. Collective.
  virtual double run() { return 0; }
  /// Return the small batches of the step, those of ranks or of walkers, or nothing if walkers have no examples left. Call
  /// this only if the noise is measured. Collective.
  [[nodiscard]] virtual std::optional<SmallBatches> small_batches() { return {}; }
  /// Replaces the allreduce of each bucket. Throws Error(unsupported) if there are no buckets.
  virtual void set_hook(comm::BucketHook hook);

 protected:
  const StepParts parts_;
};

/// Make the object for TrainerOptions::mode and exactness.
[[nodiscard]] std::unique_ptr<GradientSum> make_gradient_sum(const StepParts& parts);

}  // namespace floodtide::train
