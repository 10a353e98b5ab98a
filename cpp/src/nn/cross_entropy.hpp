// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace floodtide::nn {

/// Loss -label log(s(x)) - (1 - label) log(1 - s(x)) with the sigmoid s, and the probability s(x). The exponent is never
/// positive, so that no x causes an overflow.
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
