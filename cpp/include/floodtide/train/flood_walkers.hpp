// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "floodtide/data/examples.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/train/walkers.hpp"

namespace floodtide::train {

/// As in flood::TrainingFloodOptions.
struct FloodOptions {
  double seed_pad = 0.05;
  double threshold = 0.9;
};

/// Make walkers that train a flood-filling network.
///
/// In each pass, each walker computes one field of view of its example. The canvas of the example is kept from pass to pass.
/// `network` and `examples` must outlive the walkers. Throws Error(invalid_argument) for options outside their ranges.
[[nodiscard]] std::unique_ptr<Walkers> make_flood_walkers(nn::Ffn& network, const data::ExampleSource& examples,
                                                          const WalkersOptions& options, const FloodOptions& flood);

}  // namespace floodtide::train
