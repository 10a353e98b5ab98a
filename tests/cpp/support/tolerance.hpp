// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace floodtide::test {

/// Bound on the rounding error of a sum of `length` products in T, whatever the order of summation and with or without
/// fused multiply-adds: (length + 1) * u * magnitude, where u = eps / 2 is the unit roundoff and `magnitude` the sum of the
/// absolute products.
/// Source: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., eq. 3.5 (first order).
template <class T>
[[nodiscard]] double summation_tolerance(std::int64_t length, double magnitude) {
  return static_cast<double>(length + 1) * 0.5 * static_cast<double>(std::numeric_limits<T>::epsilon()) * magnitude;
}

/// The error that such a sum has in practice: roundings are independent, so that they grow with the root of the length
/// (4 standard deviations of length * u-sized errors). Sharper than the bound; for sums of many terms of mixed sign.
template <class T>
[[nodiscard]] double typical_summation_tolerance(std::int64_t length, double magnitude) {
  return 4.0 * std::sqrt(static_cast<double>(length + 1)) * 0.5 * static_cast<double>(std::numeric_limits<T>::epsilon()) *
         magnitude;
}

}  // namespace floodtide::test
