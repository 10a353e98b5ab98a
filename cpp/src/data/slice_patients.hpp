// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "floodtide/data/slices.hpp"

namespace floodtide::data {

/// Who a slice belongs to: a numbered patient (stack -1), or a whole stack (number 0). Ordered by what does not depend on
/// where the files lie, because the split of the patients follows this order.
struct Patient {
  std::int64_t stack = -1;
  std::int64_t number = 0;
  auto operator<=>(const Patient&) const = default;
};

/// The patient of each of a stack's `slices` slices. Throws Error(invalid_file) for a dataset that has not one axis of
/// integers, Error(shape_mismatch) for another length.
[[nodiscard]] std::vector<Patient> read_patients(const SliceStack& stack, std::int64_t stack_number, std::int64_t slices);

/// The patients of a part, sorted. Throws Error(invalid_argument) if there is none.
[[nodiscard]] std::vector<Patient> choose_patients(std::span<const Patient> of_slices, const SliceOptions& options);

}  // namespace floodtide::data
