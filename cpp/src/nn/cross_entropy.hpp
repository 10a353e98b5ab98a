// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace floodtide::nn {

/// -label log(s(x)) - (1 - label) log(1 - s(x)) for the sigmoid s, and s(x) itself, with one exponential of a number that is
/// not positive: no overflow for any x.
struct CrossEntropy {
  double loss;
  double probability;
};
inline CrossEntropy cross_entropy(double logit, double label) noexcept {
  const double e = std::exp(-std::abs(logit));
  const double loss = (logit > 0 ? logit : 0.0) - logit * label + std::log1p(e);
  return {loss, (logit >= 0 ? 1.0 : e) / (1.0 + e)};
}

}  // namespace floodtide::nn
