// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "floodtide/base/memory.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/optim/schedule.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/train/trainer.hpp"
#include "train/exchange.hpp"

namespace floodtide::train {

/// Clips and applies gradients. Holds the optimizer, the schedule and the average of the parameters.
class ParameterUpdates final : public Updates {
 public:
  /// @param parameters the parameters to update
  /// @param examples   number of examples in a full update, over all ranks
  /// `parameters`, `layout` and `options` must outlive this object.
  ParameterUpdates(std::span<float> parameters, const ParameterLayout& layout, std::unique_ptr<optim::Optimizer> optimizer,
                   std::unique_ptr<optim::Schedule> schedule, std::int64_t examples, const TrainerOptions& options);

  /// Applies an update. If the message has gradients of fewer examples than a full update, their weight is increased, so that
  /// the update uses their mean. Throws AgreedError(numerical) if a gradient is not finite; the parameters do not change then.
  void update(std::span<float> message, std::int64_t step) override;
  [[nodiscard]] std::span<const float> parameters() const override { return parameters_; }
  [[nodiscard]] bool meet_after(std::int64_t steps) const override;

  /// Return the learning rate of update `step`.
  [[nodiscard]] double rate(std::int64_t step) const { return rate_factor_ * schedule_->at(step); }
  void set_rate_factor(double factor) noexcept { rate_factor_ = factor; }
  [[nodiscard]] double rate_factor() const noexcept { return rate_factor_; }
  [[nodiscard]] optim::Optimizer& optimizer() noexcept { return *optimizer_; }
  /// Return the average of the parameters; empty if TrainerOptions::average is 0.
  [[nodiscard]] std::span<float> average() noexcept { return average_.span(); }

 private:
  void weigh(std::span<float> gradients, double examples) const;
  void require_finite(std::span<const float> gradients, std::int64_t step) const;
  void update_statistics(std::span<const float> seen);
  void update_average(std::int64_t done);

  std::span<float> parameters_;
  const ParameterLayout& layout_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::Schedule> schedule_;
  double rate_factor_ = 1;
  std::int64_t examples_;
  const TrainerOptions& options_;
  AlignedBuffer<float> average_;
};

}  // namespace floodtide::train
