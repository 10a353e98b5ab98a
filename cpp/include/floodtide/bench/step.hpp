// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "floodtide/nn/ffn.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::bench {

/// A training step of a flood-filling network without data and ranks: forward, backward, entry-wise clipping and Adam, on
/// one field of view for each example of the batch. Timed from outside, in turn with what it is compared with.
class TrainingStep {
 public:
  /// Compares the gradient with a central difference of the loss first. Throws Error(internal) if it is wrong and
  /// Error(invalid_argument) for a batch below 1.
  TrainingStep(const nn::FfnOptions& options, std::int64_t batch);

  /// One step; returns the mean loss before it. Allocates nothing after the first call.
  double run();

  /// Floating-point operations of a step, as direct convolution.
  [[nodiscard]] double flops() const noexcept;
  [[nodiscard]] std::string kernel_names() const { return network_.kernel_names(); }
  [[nodiscard]] const nn::Ffn& network() const noexcept { return network_; }

 private:
  nn::Ffn network_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor<float, 4> images_, seeds_, labels_, logits_;  // [batch, z, y, x]
  std::vector<nn::FfnExample> examples_;
  std::vector<float> gradients_;
};

}  // namespace floodtide::bench
