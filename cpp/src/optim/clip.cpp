// SPDX-License-Identifier: Apache-2.0
#include "floodtide/optim/clip.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"

namespace floodtide::optim {
namespace {

constexpr std::int64_t kPiece = 1 << 15;

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

}  // namespace floodtide::optim
