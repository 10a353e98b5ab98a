// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "floodtide/base/memory.hpp"
#include "floodtide/optim/optimizer.hpp"

namespace floodtide::bench {

/// Steps of an optimizer, and sweeps over the same memory that compute nothing. Both start with the data in memory rather than
/// in the caches, as after the passes of a network. They run on num_threads() threads.
class OptimizerPasses {
 public:
  /// Throws Error(invalid_argument) for an unknown optimizer, or for fewer than one parameter.
  OptimizerPasses(const std::string& name, std::int64_t parameters);

  /// Return the time of a step with clipping in seconds.
  double step();
  /// Return the time in seconds to read and write the parameters and the state once, and to read the gradients once.
  double sweep();

 private:
  void evict();

  std::unique_ptr<optim::Optimizer> optimizer_;
  AlignedBuffer<float> parameters_, gradients_, others_;
};

}  // namespace floodtide::bench
