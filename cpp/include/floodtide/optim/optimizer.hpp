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

/// A piece of an optimizer's state, to be stored in checkpoints and written back into: moments (one float a parameter) or a
/// counter of steps. Borrows from the optimizer.
struct NamedSpan {
  std::string name;
  std::variant<std::span<float>, std::span<std::int64_t>> values;
};

/// An update rule. The state starts at zero; equal calls give bitwise equal results, whatever the number of threads.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = delete;
  Optimizer& operator=(Optimizer&&) = delete;
  virtual ~Optimizer() = default;

  /// Updates `parameters` (all arrays of the network in one buffer) with the rate `lr`. Throws Error(shape_mismatch) unless
  /// both spans have the size that the optimizer was made for. Allocates nothing.
  virtual void step(std::span<float> parameters, std::span<const float> gradients, double lr) = 0;
  /// All state; empty for rules without any.
  [[nodiscard]] virtual std::vector<NamedSpan> state() = 0;
};

/// A row of the registry. Rates are not parameters: every step gets its own.
struct OptimizerRow {
  std::string name;
  std::unique_ptr<Optimizer> (*make)(const ParameterValues& resolved, std::int64_t parameter_count);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const OptimizerRow> optimizer_rows();

/// The optimizer of that name for `parameter_count` parameters. Throws Error(invalid_argument) for an unknown name, an
/// unknown parameter or a value outside its bounds.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const ParameterValues& values,
                                                        std::int64_t parameter_count);

/// Limits each entry to [-limit, limit], as google/ffn does (max_gradient_entry_mag). NaN stays NaN. limit > 0.
void clip_entries(std::span<float> gradients, float limit);

}  // namespace floodtide::optim
