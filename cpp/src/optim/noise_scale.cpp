// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/noise_scale.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace floodtide::optim {
namespace {

/// Indices in the state: number of steps; sums of weights and of squared weights; weighted sums of |G|^2, S and their products;
/// recent size of squared norms.
enum Index : std::size_t { kSteps, kWeights, kSquaredWeights, kSignal, kNoise, kSignal2, kNoise2, kProduct, kRecent };
constexpr double kRecentDecay = 0.9;
constexpr double kQuantile = 1.96;  // of the normal distribution, for 95 %

}  // namespace

void NoiseScale::add(const GradientNorms& norms) noexcept {
  const double difference = norms.small_inverse - norms.large_inverse;
  // Relative to recent gradients: otherwise the large gradients of the first steps would count for hundreds of steps. The
  // recent size comes from earlier steps, so that it does not depend on the noise of this step.
  const double recent = state_[kSteps] > 0 ? state_[kRecent] : norms.small_square;
  const double noise = (norms.small_square - norms.large_square) / (difference * recent);
  const double signal = norms.large_square / recent - noise * norms.large_inverse;
  if (difference <= 0 || !std::isfinite(noise) || !std::isfinite(signal)) return;
  state_[kRecent] = kRecentDecay * recent + (1 - kRecentDecay) * norms.small_square;
  const double added[] = {1, 1, signal, noise, signal * signal, noise * noise, signal * noise};
  for (std::size_t i = 0; i < std::size(added); ++i) {
    double& sum = state_[kWeights + i];
    sum = (i == 1 ? kDecay * kDecay : kDecay) * sum + added[i];
  }
  ++state_[kSteps];
}

std::optional<NoiseScale::Estimate> NoiseScale::estimate() const noexcept {
  if (state_[kSteps] < kLeastSteps) return std::nullopt;
  const double weights = state_[kWeights];
  const double independent = weights * weights / state_[kSquaredWeights];  // steps of equal weight with the same variance
  const double signal = state_[kSignal] / weights, noise = state_[kNoise] / weights;
  if (signal <= 0) return std::nullopt;
  const double unbiased = 1 / (independent - 1);  // variance of a mean, from the variance of the steps
  const double of_signal = (state_[kSignal2] / weights - signal * signal) * unbiased;
  const double of_noise = (state_[kNoise2] / weights - noise * noise) * unbiased;
  const double common = (state_[kProduct] / weights - signal * noise) * unbiased;
  const double ratio = std::max(noise / signal, 0.0);
  // Fieller's interval of a quotient: the values r for which noise - r signal is within 1.96 standard deviations of 0.
  const double q = kQuantile * kQuantile;
  const double a = signal * signal - q * of_signal;
  const double b = signal * noise - q * common;
  const double c = noise * noise - q * of_noise;
  const double root = std::sqrt(std::max(b * b - a * c, 0.0));
  if (a <= 0) return Estimate{ratio, 0.0, std::numeric_limits<double>::infinity()};
  return Estimate{ratio, std::max((b - root) / a, 0.0), std::max((b + root) / a, 0.0)};
}

}  // namespace floodtide::optim
