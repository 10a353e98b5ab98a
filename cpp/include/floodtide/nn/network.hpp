// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/nn/network_use.hpp"
#include "floodtide/tensor/parameters.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::nn {

/// Called with the index of each entry of a ParameterLayout when the gradient of this entry is complete.
using OnReady = std::function<void(std::size_t entry)>;

/// Sum `sums` over all ranks, in place. Collective: every rank calls this the same number of times in a training pass. The
/// network itself does not know about ranks.
using SumOverRanks = std::function<void(std::span<double> sums)>;

/// Initial parameters of a new network: random numbers from the seed in its options, or zeros. Use zeros if the caller sets all
/// parameters anyway.
enum class Initial { random, zero };

/// What training, files and users need of every network. Each kind of network derives from this class, and has a row in
/// train/network_file.cpp.
class Network : Immovable {
 public:
  virtual ~Network() = default;

  /// Return the name of the kind in files.
  [[nodiscard]] virtual std::string_view kind() const noexcept = 0;
  /// Return the architecture in words, for messages. Two networks with the same text can have the same parameters.
  [[nodiscard]] virtual std::string summary() const = 0;

  [[nodiscard]] virtual const ParameterLayout& layout() const noexcept = 0;
  /// Return all parameters in the order of layout(). Write to the span while holding use().change(). If no other thread uses
  /// the network, it is enough to call parameters_changed() afterwards.
  [[nodiscard]] std::span<float> parameters() noexcept { return parameters_.span(); }
  [[nodiscard]] std::span<const float> parameters() const noexcept { return parameters_.span(); }
  void parameters_changed() { use_.look_at(parameters()); }
  /// Return who uses the parameters now.
  [[nodiscard]] NetworkUse& use() const noexcept { return use_; }

  /// Return the bytes of activations and gradients that the network keeps for further passes, without the packed weights of the
  /// convolutions. Passes that run for the first time on another thread are not included yet.
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept = 0;
  /// Return the kernels of the convolutions for the last image size. Before the first pass, the text may be empty.
  [[nodiscard]] virtual std::string kernel_names() const {
    const std::lock_guard lock(kernels_mutex_);
    return kernels_;
  }

 protected:
  /// @param size number of the parameters, which are 0 at first
  explicit Network(std::int64_t size) : parameters_(size) {}
  /// Remember the kernels of a new plan.
  void set_kernel_names(std::string names) {
    const std::lock_guard lock(kernels_mutex_);
    kernels_ = std::move(names);
  }

 private:
  AlignedBuffer<float> parameters_;
  mutable NetworkUse use_;
  mutable std::mutex kernels_mutex_;
  std::string kernels_;
};

}  // namespace floodtide::nn
