// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/base/specification.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Row of the registry of seed policies. A seed policy chooses the positions at which objects are started.
struct SeedPolicyRow {
  std::string name;
  std::string published;  ///< its class in google/ffn
  /// Returns the seeds of a normalised image [z, y, x], in the order in which they are tried. `excluded` is empty, or not 0
  /// where the image shows nothing to segment. May allocate several times the memory of the image.
  std::vector<Vec3> (*find)(View<const float, 3> image, View<const std::uint8_t, 3> excluded, const ParameterValues& resolved,
                            const Progress& progress);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const SeedPolicyRow> seed_policy_rows();

/// Return the seeds of the policy `name` that are at least `margin` voxels (half a field of view) from the image borders, and
/// not where `excluded`, if it is not empty, is not 0. Throws Error(invalid_argument) for an unknown name, an unknown
/// parameter, or a value outside its range, and Error(shape_mismatch) if `excluded` has another shape than the image.
[[nodiscard]] std::vector<Vec3> find_seeds(std::string_view name, const ParameterValues& values, View<const float, 3> image,
                                           View<const std::uint8_t, 3> excluded, const Vec3& margin,
                                           const Progress& progress = {});

}  // namespace floodtide::segment
