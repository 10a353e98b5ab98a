// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "floodtide/nn/network_use.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::nn {

/// What training, files and users need of every network. Each kind of network derives from this class, and has a row in
/// train/network_file.cpp.
class Network {
 public:
  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Return the name of the kind in files.
  [[nodiscard]] virtual std::string_view kind() const noexcept = 0;
  /// Return the architecture in words, for messages. Two networks with the same text can have the same parameters.
  [[nodiscard]] virtual std::string summary() const = 0;

  [[nodiscard]] virtual const ParameterLayout& layout() const noexcept = 0;
  /// Return all parameters in the order of layout(). Write to the span while holding use().change(). If no other thread uses
  /// the network, it is enough to call parameters_changed() afterwards.
  [[nodiscard]] virtual std::span<float> parameters() noexcept = 0;
  [[nodiscard]] virtual std::span<const float> parameters() const noexcept = 0;
  void parameters_changed() { use().look_at(parameters()); }
  /// Return who uses the parameters now.
  [[nodiscard]] virtual NetworkUse& use() const noexcept = 0;

  /// Return the bytes of activations and gradients that the network keeps for further passes, without the packed weights of the
  /// convolutions. Passes that run for the first time on another thread are not included yet.
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept = 0;
  /// Return the kernels of the convolutions for the last image size. Before the first pass, the text may be empty.
  [[nodiscard]] virtual std::string kernel_names() const = 0;
  /// Return the floating-point operations of one training step per image (z, y, x), counted as direct convolution. The first
  /// layer has no backward-data pass.
  [[nodiscard]] virtual double step_flops(const Vec3& size) const noexcept = 0;
  /// Return the floating-point operations of a forward pass of one image (z, y, x), counted as direct convolution.
  [[nodiscard]] virtual double forward_flops(const Vec3& size) const noexcept = 0;

 protected:
  Network() = default;
  Network(Network&&) noexcept = default;
  Network& operator=(Network&&) noexcept = default;
};

}  // namespace floodtide::nn
