// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <tuple>

#include "floodtide/optim/noise_scale.hpp"

namespace floodtide::bindings {

/// Return (noise scale, low, high) in examples, or nothing.
inline std::optional<std::tuple<double, double, double>> interval_of(
    const std::optional<optim::NoiseScale::Estimate>& estimate) {
  if (!estimate) return std::nullopt;
  return std::tuple(estimate->examples, estimate->low, estimate->high);
}

}  // namespace floodtide::bindings
