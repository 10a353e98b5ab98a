// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "floodtide/nn/ffn.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::bench {

/// Passes of a flood-filling network on random data, on one rank. Each example of the batch is one field of view. The caller
/// measures the time.
class NetworkPasses {
 public:
  /// Compares the gradient with a central difference of the loss. Throws Error(internal) if the gradient is wrong, and
  /// Error(invalid_argument) if `batch` is below 1.
  NetworkPasses(const nn::FfnOptions& options, std::int64_t batch);

  /// Run a training step: forward and backward pass, clipping and Adam. Return the mean loss before the update. Allocates
  /// memory in the first call only.
  double step();
  /// Run a forward pass. Allocates memory in the first call only.
  void forward();
  /// Compute forward passes in the faster way from now on, as segmentation does, and return it.
  nn::Forward use_fastest_forward();

  /// Return the floating-point operations of one call of step(), counted as direct convolution.
  [[nodiscard]] double step_flops() const noexcept;
  /// Return the floating-point operations of one call of forward(), counted as direct convolution.
  [[nodiscard]] double forward_flops() const noexcept;
  [[nodiscard]] std::string kernel_names() const { return network_.kernel_names(); }
  [[nodiscard]] const nn::Ffn& network() const noexcept { return network_; }

 private:
  nn::Ffn network_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor<float, 4> images_, seeds_, labels_, logits_;  // [batch, z, y, x]
  std::vector<nn::FfnExample> examples_;
  std::vector<float> gradients_;
  std::optional<nn::Forward> forward_;
};

}  // namespace floodtide::bench
