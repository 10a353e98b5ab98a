// SPDX-License-Identifier: Apache-2.0
// What the update rules share: their factories (rows of registry.cpp) and the split of the parameters over threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "floodtide/optim/schedule.hpp"

namespace floodtide::optim {

std::unique_ptr<Optimizer> make_sgd(const ParameterValues& values, std::int64_t parameter_count);
std::unique_ptr<Optimizer> make_momentum(const ParameterValues& values, std::int64_t parameter_count);
std::unique_ptr<Optimizer> make_adam(const ParameterValues& values, std::int64_t parameter_count);
std::unique_ptr<Schedule> make_constant(const ParameterValues& values, double factor);
std::unique_ptr<Schedule> make_cosine(const ParameterValues& values, double factor);

/// Rates of the first steps: start + (target - start) * step / steps, then target, the scaled rate.
/// Source: Goyal et al., "Accurate, large minibatch SGD", 2017, section 2.2 (gradual warm-up).
struct Warmup {
  Warmup(const ParameterValues& values, double factor);
  [[nodiscard]] double at(std::int64_t step) const noexcept;
  double start, target;
  std::int64_t steps;
};

/// Calls body(begin, end) over fixed pieces of [0, size). Updates are entry by entry, so the split does not matter.
template <class Body>
void for_pieces(std::int64_t size, const Body& body) {
  constexpr std::int64_t kPiece = 1 << 15;
  parallel_for((size + kPiece - 1) / kPiece,
               [&](std::int64_t piece) { body(piece * kPiece, std::min(size, (piece + 1) * kPiece)); });
}

inline void require_sizes(std::int64_t expected, std::span<float> parameters, std::span<const float> gradients) {
  FLOODTIDE_REQUIRE(std::ssize(parameters) == expected && std::ssize(gradients) == expected, shape_mismatch, "optimizer: got ",
                    parameters.size(), " parameters and ", gradients.size(), " gradients, expected ", expected, " of each");
}

}  // namespace floodtide::optim
