// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/loss.hpp"

#include <array>
#include <numeric>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "nn/cross_entropy.hpp"

namespace floodtide::nn {

double sigmoid_cross_entropy(View<const float, 3> logits, View<const float, 3> labels, View<const float, 3> weights) {
  FLOODTIDE_REQUIRE(
      !logits.empty() && labels.shape() == logits.shape() && (weights.empty() || weights.shape() == logits.shape()),
      shape_mismatch, "cross-entropy: logits ", Show{logits.shape()}, ", labels ", Show{labels.shape()}, ", weights ",
      Show{weights.shape()}, ", expected equal shapes");
  constexpr std::int64_t kChunks = 32;
  std::array<double, kChunks> sums{};
  parallel_for(kChunks, [&](std::int64_t chunk) {
    const Range range = chunk_range(logits.size(), kChunks, chunk);
    double sum = 0;
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const double weight = weights.empty() ? 1.0 : double{weights.data()[i]};
      sum += weight * cross_entropy(double{logits.data()[i]}, double{labels.data()[i]}).loss;
    }
    sums[static_cast<std::size_t>(chunk)] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(logits.size());
}

}  // namespace floodtide::nn
