// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/base/specification.hpp"
#include "floodtide/segment/closed.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// What a seed policy looks at.
struct SeedSearch {
  View<const float, 3> image;          ///< normalised, [z, y, x]
  View<const std::uint8_t, 3> closed;  ///< empty, or bits of Closed for each voxel of the image
  Vec3 margin;                         ///< half a field of view: seeds nearer to the faces will be left out
  const ParameterValues& values;       ///< all parameters of the policy
  const Progress& progress;

  /// Return the bits of a voxel, by its place in row-major order.
  [[nodiscard]] std::uint8_t bits(std::int64_t voxel) const {
    return closed.size() == 0 ? std::uint8_t{0} : closed.data()[voxel];
  }
};

/// Row of the registry of seed policies. A seed policy chooses the positions at which objects are started.
struct SeedPolicyRow {
  std::string name;
  std::string published;  ///< its class in google/ffn
  /// Returns the seeds in the order in which they are tried. May allocate several times the memory of the image.
  std::vector<Vec3> (*find)(const SeedSearch& search);
  std::vector<ParameterSpec> parameters;
  std::string help;
};

[[nodiscard]] std::span<const SeedPolicyRow> seed_policy_rows();

/// Return the seeds of the policy `name` that are at least `margin` voxels (half a field of view) from the image borders, and
/// that no bit but kClosedByShift closes.
/// @param closed empty, or bits of Closed for each voxel of the image
/// Throws Error(invalid_argument) for an unknown name, an unknown parameter, or a value outside its range, and
/// Error(shape_mismatch) if `closed` has another shape than the image.
[[nodiscard]] std::vector<Vec3> find_seeds(std::string_view name, const ParameterValues& values, View<const float, 3> image,
                                           View<const std::uint8_t, 3> closed, const Vec3& margin,
                                           const Progress& progress = {});

}  // namespace floodtide::segment
