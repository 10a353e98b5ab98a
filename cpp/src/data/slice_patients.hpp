// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "floodtide/data/slices.hpp"

namespace floodtide::data {

/// The patient of a slice: a numbered patient (stack -1), or a whole stack (number 0). The order does not depend on the paths
/// of the files, because the split of the patients follows this order.
struct Patient {
  std::int64_t stack = -1;
  std::int64_t number = 0;
  auto operator<=>(const Patient&) const = default;
};

/// Return the patient of each slice of a stack. Throws Error(invalid_file) unless the dataset has one axis of integers, and
/// Error(shape_mismatch) if its length is not `slices`.
[[nodiscard]] std::vector<Patient> read_patients(const SliceStack& stack, std::int64_t stack_number, std::int64_t slices);

/// Return the sorted patients of a part. Throws Error(invalid_argument) if the part has no patient.
[[nodiscard]] std::vector<Patient> choose_patients(std::span<const Patient> of_slices, const SliceOptions& options);

}  // namespace floodtide::data
