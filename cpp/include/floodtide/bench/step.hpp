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

/// A flood-filling network's passes without data and ranks, on one field of view for each example of the batch. Timed from
/// outside, in turn with what they are compared with.
class NetworkPasses {
 public:
  /// Compares the gradient with a central difference of the loss first. Throws Error(internal) if it is wrong and
  /// Error(invalid_argument) for a batch below 1.
  NetworkPasses(const nn::FfnOptions& options, std::int64_t batch);

  /// Forward, backward, entry-wise clipping and Adam; returns the mean loss before the update. Allocates nothing after the
  /// first call, nor does the next.
  double step();
  void forward();

  /// Floating-point operations, as direct convolution.
  [[nodiscard]] double step_flops() const noexcept;
  [[nodiscard]] double forward_flops() const noexcept;
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
