// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/clip.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/pieces.hpp"

namespace floodtide::optim {
namespace {

constexpr std::int64_t kPiece = 1 << 15;
constexpr double kLeastWeights = 1e-3;  // norm of the weights of a unit that starts at zero; source: see AdaptiveClip

void require_limit(double limit) {
  FLOODTIDE_REQUIRE(limit > 0, invalid_argument, "clip: the limit is ", limit, ", expected a positive number");
}

/// Several independent sums, because an addition takes several cycles.
double square_sum(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  double sum = std::accumulate(lanes.begin(), lanes.end(), 0.0);
  for (; i < values.size(); ++i) sum += double{values[i]} * double{values[i]};
  return sum;
}

}  // namespace

void clip_entries(std::span<float> gradients, double limit) {
  require_limit(limit);
  const auto most = static_cast<float>(limit);
  float* const g = gradients.data();
  for_pieces(std::ssize(gradients), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) g[i] = std::clamp(g[i], -most, most);
  });
}

SquareSum::SquareSum(std::int64_t largest) : pieces_((largest + kPiece - 1) / kPiece) {}

double SquareSum::operator()(std::span<const float> values) {
  const std::int64_t size = std::ssize(values);
  const std::int64_t pieces = (size + kPiece - 1) / kPiece;
  FLOODTIDE_ASSERT(pieces <= pieces_.size());
  double* const sums = pieces_.data();
  parallel_for(pieces, [&](std::int64_t piece) {
    const std::int64_t begin = piece * kPiece;
    const std::int64_t length = std::min(kPiece, size - begin);
    sums[piece] = square_sum(values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length)));
  });
  return std::accumulate(sums, sums + pieces, 0.0);
}

double norm_factor(double norm, double limit) noexcept { return std::min(1.0, limit / (norm + 1e-6)); }

AdaptiveClip::AdaptiveClip(const ParameterLayout& layout, double limit) : limit_(limit) {
  require_limit(limit);
  std::int64_t units = 0;
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    if (entry.offset >= layout.trained_size()) break;
    const std::int64_t own = entry.shape.size() > 1 ? entry.shape.back() : 1;
    arrays_.push_back({entry.offset, entry.offset + entry.size, own, units});
    units += own;
  }
  weights_ = AlignedBuffer<double>(units);
  gradients_ = AlignedBuffer<double>(units);
}

void AdaptiveClip::operator()(std::span<const float> parameters, std::span<float> gradients, double factor) {
  parallel_for(std::ssize(arrays_), [&](std::int64_t index) {
    const Array& array = arrays_[static_cast<std::size_t>(index)];
    double* const of_weights = weights_.data() + array.first_unit;
    double* const of_gradients = gradients_.data() + array.first_unit;
    std::fill_n(of_weights, array.units, 0.0);
    std::fill_n(of_gradients, array.units, 0.0);
    const float* const p = parameters.data();
    float* const g = gradients.data();
    for (std::int64_t row = array.begin; row < array.end; row += array.units) {
      for (std::int64_t unit = 0; unit < array.units; ++unit) {
        of_weights[unit] += double{p[row + unit]} * double{p[row + unit]};
        of_gradients[unit] += double{g[row + unit]} * double{g[row + unit]};
      }
    }
    for (std::int64_t unit = 0; unit < array.units; ++unit) {  // now: the factor of each unit
      const double most = limit_ * std::max(std::sqrt(of_weights[unit]), kLeastWeights);
      const double norm = std::sqrt(of_gradients[unit]) * std::abs(factor);
      of_gradients[unit] = norm > most ? most / norm : 1.0;
    }
    for (std::int64_t row = array.begin; row < array.end; row += array.units) {
      for (std::int64_t unit = 0; unit < array.units; ++unit) g[row + unit] *= static_cast<float>(of_gradients[unit]);
    }
  });
}

}  // namespace floodtide::optim
