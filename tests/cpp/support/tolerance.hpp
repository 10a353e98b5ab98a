// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace floodtide::test {

/// Return a bound on the rounding error of a sum of `length` products in T: (length + 1) * u * magnitude.
///
/// u = eps / 2 is the unit roundoff, and `magnitude` is the sum of the absolute products. The bound holds for any order of
/// summation, with and without fused multiply-add.
/// Source: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., eq. 3.5 (first order).
template <class T>
[[nodiscard]] double summation_tolerance(std::int64_t length, double magnitude) {
  return static_cast<double>(length + 1) * 0.5 * static_cast<double>(std::numeric_limits<T>::epsilon()) * magnitude;
}

/// Return the typical error of such a sum, for sums of many terms of both signs. It is smaller than the bound.
///
/// Rounding errors are nearly independent, so that their sum grows with the square root of the length. The result is 4 standard
/// deviations.
template <class T>
[[nodiscard]] double typical_summation_tolerance(std::int64_t length, double magnitude) {
  return 4.0 * std::sqrt(static_cast<double>(length + 1)) * 0.5 * static_cast<double>(std::numeric_limits<T>::epsilon()) *
         magnitude;
}

}  // namespace floodtide::test
