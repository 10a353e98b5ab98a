// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "floodtide/data/examples.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/train/walkers.hpp"

namespace floodtide::train {

struct FloodOptions {
  double seed_pad = 0.05;
  double threshold = 0.9;
};

/// Walkers that flood: one field of view of each walker's example a pass, on a canvas that stays. References must outlive them.
/// Throws Error(invalid_argument) if there are fewer walkers than ranks.
[[nodiscard]] std::unique_ptr<Walkers> make_flood_walkers(nn::Ffn& network, const data::ExampleSource& examples,
                                                          const WalkersOptions& options, const FloodOptions& flood);

}  // namespace floodtide::train
