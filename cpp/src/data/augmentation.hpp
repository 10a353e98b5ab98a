// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>

#include "floodtide/base/random.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Axis `axis` of the result is axis source_axis[axis] of the source, reversed if reversed[axis].
struct AxisMap {
  std::array<int, 3> source_axis{0, 1, 2};
  std::array<bool, 3> reversed{};
};

/// One uniform permutation of the permutable axes, then each reflectable axis reversed with probability one half.
/// Source: google/ffn ffn/training/augmentation.py, PermuteAndReflect.
[[nodiscard]] AxisMap draw_axis_map(std::span<const int> permutable_axes, std::span<const int> reflectable_axes,
                                    Philox& random);

/// The array under the map; allocates.
[[nodiscard]] Tensor<float, 3> apply(const AxisMap& map, View<const float, 3> source);

}  // namespace floodtide::data
