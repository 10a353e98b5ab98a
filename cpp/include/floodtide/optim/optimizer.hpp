// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "floodtide/base/specification.hpp"

namespace floodtide::optim {

/// One named part of the state of an optimizer: moments (one float per parameter) or a counter of steps. Checkpoints store
/// these parts and restore them by writing to `values`. The optimizer owns the memory and must outlive this object.
struct NamedSpan {
  std::string name;
  std::variant<std::span<float>, std::span<std::int64_t>> values;
};

/// Rule that updates the parameters from gradients. The state is zero at first. Equal calls give equal results, bit for bit,
/// for any number of threads.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = delete;
  Optimizer& operator=(Optimizer&&) = delete;
  virtual ~Optimizer() = default;

  /// Updates `parameters` (all arrays of the network in one buffer) with the learning rate `lr`. Throws Error(shape_mismatch)
  /// unless both spans have `parameter_count` elements (make_optimizer). Allocates nothing.
  virtual void step(std::span<float> parameters, std::span<const float> gradients, double lr) = 0;
  /// Return all parts of the state, or an empty vector for rules without state.
  [[nodiscard]] virtual std::vector<NamedSpan> state() = 0;
};

/// Row of the registry of optimizers. The learning rate is not a parameter, because every step receives its rate.
struct OptimizerRow {
  std::string name;
  std::unique_ptr<Optimizer> (*make)(const ParameterValues& resolved, std::int64_t parameter_count);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const OptimizerRow> optimizer_rows();

/// Make the optimizer `name` for a network with `parameter_count` parameters. Throws Error(invalid_argument) for an unknown
/// name, an unknown parameter, or a value outside its limits.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const ParameterValues& values,
                                                        std::int64_t parameter_count);

/// Clip each gradient to [-limit, limit], as google/ffn does (max_gradient_entry_mag). NaN stays NaN.
/// Throws Error(invalid_argument) unless limit > 0.
void clip_entries(std::span<float> gradients, float limit);

}  // namespace floodtide::optim
