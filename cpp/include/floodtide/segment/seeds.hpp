// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/base/specification.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// A way to choose where objects are started.
struct SeedPolicyRow {
  std::string name;
  /// Seeds of a normalised image [z, y, x], in the order in which they are tried. May allocate several times the image.
  std::vector<Vec3> (*find)(View<const float, 3> image, const ParameterValues& resolved, const Progress& progress);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const SeedPolicyRow> seed_policy_rows();

/// Seeds of the policy `name` that keep `margin` voxels (half a field of view) from the borders of the image.
/// Throws Error(invalid_argument) for an unknown name, and for values that are none of its parameters or out of range.
[[nodiscard]] std::vector<Vec3> find_seeds(std::string_view name, const ParameterValues& values, View<const float, 3> image,
                                           const Vec3& margin, const Progress& progress = {});

}  // namespace floodtide::segment
