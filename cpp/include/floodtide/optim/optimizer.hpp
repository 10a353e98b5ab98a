// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "floodtide/base/immovable.hpp"
#include "floodtide/base/specification.hpp"
#include "floodtide/tensor/parameters.hpp"

namespace floodtide::optim {

/// One named part of the state of an optimizer: moments (one float per parameter) or a counter of steps. Checkpoints store
/// these parts and restore them by writing to `values`. The optimizer owns the memory and must outlive this object.
struct NamedSpan {
  std::string name;
  std::variant<std::span<float>, std::span<std::int64_t>> values;
};

/// The learning rate of a step, and what happens to each gradient first.
struct StepOptions {
  double lr;
  double gradient_factor = 1;                             ///< multiplies each gradient
  double clip = std::numeric_limits<double>::infinity();  ///< then clips it to [-clip, clip]
};

/// Rule that updates the parameters from gradients. The state is zero at first, unless a parameter of the rule says another
/// value. Equal calls give equal results, bit for bit, for any number of threads.
class Optimizer : Immovable {
 public:
  virtual ~Optimizer() = default;

  /// Updates `parameters`, the trained arrays of the layout in one buffer. One sweep scales and clips the gradients, applies
  /// the weight decay and updates state and parameters; rules with a rate for each layer (lars, lamb) need a second sweep.
  /// Throws Error(shape_mismatch) unless both spans have ParameterLayout::trained_size() elements. Allocates nothing.
  virtual void step(std::span<float> parameters, std::span<const float> gradients, const StepOptions& options) = 0;
  /// Return all parts of the state in alphabetical order, or an empty vector for rules without state.
  [[nodiscard]] virtual std::vector<NamedSpan> state() = 0;
};

/// Row of the registry of optimizers. The learning rate is not a parameter, because every step receives its rate.
struct OptimizerRow {
  std::string name;
  std::unique_ptr<Optimizer> (*make)(const ParameterValues& resolved, const ParameterLayout& layout);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const OptimizerRow> optimizer_rows();

/// Make the optimizer `name` for the trained arrays of a layout. Throws Error(invalid_argument) for an unknown name, an unknown
/// parameter, or a value outside its limits.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const ParameterValues& values,
                                                        const ParameterLayout& layout);

}  // namespace floodtide::optim
