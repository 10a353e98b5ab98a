// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "floodtide/base/random.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::data {

/// Axis `axis` of the result is axis source_axis[axis] of the source, reversed if reversed[axis].
struct AxisMap {
  std::array<int, 3> source_axis{0, 1, 2};
  std::array<bool, 3> reversed{};
  [[nodiscard]] bool keeps_axes() const noexcept { return source_axis == std::array<int, 3>{0, 1, 2}; }
};

/// Throws Error(invalid_argument) unless each list has different axes out of 0, 1, 2, and the patch has the same size along all
/// permutable axes.
void require_axes(const std::vector<int>& permutable_axes, const std::vector<int>& reflectable_axes, const Vec3& patch_size);

/// Draw a uniform permutation of the permutable axes, then reverse each reflectable axis with probability one half.
/// Source: google/ffn ffn/training/augmentation.py, PermuteAndReflect.
[[nodiscard]] AxisMap draw_axis_map(std::span<const int> permutable_axes, std::span<const int> reflectable_axes,
                                    Philox& random);

/// Return the permuted and reflected array. T is float or std::int64_t.
template <class T>
[[nodiscard]] Tensor<T, 3> apply(const AxisMap& map, View<const T, 3> source);

}  // namespace floodtide::data
