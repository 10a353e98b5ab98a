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

/// Averages, clips and applies gradients; keeps the optimizer's state and the average of the parameters.
class ParameterUpdates final : public Updates {
 public:
  /// `parameters` are what is updated, by sums over `examples` examples. References must outlive it.
  ParameterUpdates(std::span<float> parameters, const ParameterLayout& layout, std::unique_ptr<optim::Optimizer> optimizer,
                   std::unique_ptr<optim::Schedule> schedule, std::int64_t examples, const TrainerOptions& options);

  /// The gradients' weight is that of all examples that an update should have: where there are fewer, these weigh more. Throws
  /// AgreedError(numerical) if one is not finite; the parameters then stay as they are.
  void update(std::span<float> message, std::int64_t step) override;
  [[nodiscard]] std::span<const float> parameters() const override { return parameters_; }
  [[nodiscard]] bool meet_after(std::int64_t steps) const override;

  /// Return the learning rate of update `step`.
  [[nodiscard]] double rate(std::int64_t step) const { return rate_factor_ * schedule_->at(step); }
  void set_rate_factor(double factor) noexcept { rate_factor_ = factor; }
  [[nodiscard]] double rate_factor() const noexcept { return rate_factor_; }
  [[nodiscard]] optim::Optimizer& optimizer() noexcept { return *optimizer_; }
  /// Empty without.
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
