// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "floodtide/base/memory.hpp"
#include "floodtide/optim/clip.hpp"
#include "floodtide/optim/noise_scale.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/optim/scaling.hpp"
#include "floodtide/optim/schedule.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/train/trainer.hpp"
#include "train/exchange.hpp"

namespace floodtide::train {

/// Mean gradients of the small batches of a step (GradientNorms), over all ranks.
struct SmallBatches {
  double square;   ///< mean of their squared norms
  double inverse;  ///< mean of 1 / examples
};

/// Clips and applies gradients. Holds the optimizer, the schedule, the noise scale and the average of the parameters.
class ParameterUpdates final : public Updates {
 public:
  /// @param parameters the parameters to update
  /// @param examples   number of examples in a full update, over all ranks
  /// `parameters`, `layout` and `options` must outlive this object.
  ParameterUpdates(std::span<float> parameters, const ParameterLayout& layout, std::unique_ptr<optim::Optimizer> optimizer,
                   optim::Schedule schedule, const optim::Scaling& scaling, std::int64_t examples,
                   const TrainerOptions& options);

  /// Applies an update. If the message has gradients of fewer examples than a full update, their weight is increased, so that
  /// the update uses their mean. Throws AgreedError(numerical) if a gradient is not finite; the parameters do not change then.
  void update(std::span<float> message, std::int64_t step) override;
  [[nodiscard]] std::span<const float> parameters() const override { return parameters_; }
  [[nodiscard]] bool meet_after(std::int64_t steps) const override;

  /// Return the learning rate of update `step`, which is the next one.
  [[nodiscard]] double rate(std::int64_t step) const {
    return rate_factor_ * schedule_.at(pace_.planned_for(step), scaling_.factor(known_noise_scale()));
  }
  /// Return the norm of the gradient of the last update, before clipping.
  [[nodiscard]] double gradient_norm() const noexcept { return gradient_norm_; }
  /// Return whether the noise scale is measured. Then give the small batches of each step before its update().
  [[nodiscard]] bool measures_noise() const { return options_.measure_noise || scaling_.measures_noise(); }
  void give_small_batches(const SmallBatches& batches) noexcept { small_batches_ = batches; }
  [[nodiscard]] optim::NoiseScale& noise_scale() noexcept { return noise_scale_; }
  void set_rate_factor(double factor) noexcept { rate_factor_ = factor; }
  [[nodiscard]] double rate_factor() const noexcept { return rate_factor_; }
  void set_pace(const optim::Pace& pace) noexcept { pace_ = pace; }
  [[nodiscard]] optim::Optimizer& optimizer() noexcept { return *optimizer_; }
  /// Return the average of the parameters; empty if TrainerOptions::average is 0.
  [[nodiscard]] std::span<float> average() noexcept { return average_.span(); }

 private:
  [[nodiscard]] std::optional<double> known_noise_scale() const noexcept;
  [[noreturn]] void raise_not_finite(std::span<const float> gradients, std::int64_t step) const;
  void update_statistics(std::span<const float> seen, double factor);
  void measure_noise(double factor);
  void update_average(std::int64_t done);

  std::span<float> parameters_;
  const ParameterLayout& layout_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::Schedule schedule_;
  optim::Scaling scaling_;
  optim::NoiseScale noise_scale_;
  optim::SquareSum square_sum_;
  std::optional<SmallBatches> small_batches_;
  double gradient_norm_ = 0;
  double rate_factor_ = 1;
  optim::Pace pace_;
  std::int64_t examples_;
  const TrainerOptions& options_;
  AlignedBuffer<float> average_;
};

}  // namespace floodtide::train
