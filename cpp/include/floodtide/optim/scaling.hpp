// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/specification.hpp"

namespace floodtide::optim {

/// What a scaling rule may depend on.
struct Workers {
  std::int64_t count = 1;                  ///< walkers whose gradients an update averages
  std::int64_t batch = 1;                  ///< examples of a worker in an update
  std::optional<double> noise_scale = {};  ///< gradient noise scale in examples (NoiseScale); empty: not known yet
};

/// Row of the registry of scaling rules: how the learning rate grows with the number of workers.
struct ScaleRow {
  std::string name;
  double (*factor)(const Workers& workers, const ParameterValues& values);
  std::vector<ParameterSpec> parameters;
  std::string help;
  std::vector<std::string> optimizers = {};  ///< the optimizers that the rule is for; empty: all
  bool measures_noise = false;               ///< the rule needs Workers::noise_scale
  /// Returns the parameters of the optimizer for this number of workers; null: the rule leaves them as they are.
  ParameterValues (*adapt)(ParameterValues optimizer_values, const Workers& workers) = nullptr;
};

[[nodiscard]] std::span<const ScaleRow> scale_rows();
/// Return the row of a rule. Throws Error(invalid_argument) for an unknown name.
[[nodiscard]] const ScaleRow& scale_row(std::string_view rule);

/// Return the factor by which a scaling rule multiplies the base learning rate. Parameters that `values` leaves out have their
/// defaults. Throws Error(invalid_argument) for an unknown rule or parameter, a value outside its limits, or if a number of
/// workers or examples is below 1.
[[nodiscard]] double scale_factor(std::string_view rule, const ParameterValues& values, const Workers& workers);

/// Return the parameters of an optimizer as the rule sets them for these workers, with defaults filled in. Throws
/// Error(invalid_argument) if the rule is for other optimizers.
[[nodiscard]] ParameterValues scaled_optimizer(std::string_view rule, std::string_view optimizer, const ParameterValues& values,
                                               const Workers& workers);

/// A scaling rule with its parameters, for a fixed number of workers.
class Scaling {
 public:
  /// Throws Error(invalid_argument) as scale_factor() does.
  Scaling(std::string_view rule, const ParameterValues& values, const Workers& workers);

  /// Return the factor of the base learning rate, given the noise scale in examples, if it is known.
  [[nodiscard]] double factor(std::optional<double> noise_scale) const;
  /// Return whether the training must measure the noise scale: never with a single worker, or if a parameter gives it.
  [[nodiscard]] bool measures_noise() const;

 private:
  const ScaleRow* row_;
  ParameterValues values_;
  Workers workers_;
};

}  // namespace floodtide::optim
