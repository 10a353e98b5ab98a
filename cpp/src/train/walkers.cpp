// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/walkers.hpp"

#include "floodtide/base/error.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/data/examples.hpp"

namespace floodtide::train {

Walkers::Walkers(nn::Network& network, const WalkersOptions& options) : network_(network), options_(options) {
  FLOODTIDE_REQUIRE(options.walkers >= options.ranks, invalid_argument, "train: ", options.walkers, " walkers for ",
                    options.ranks, " ranks, expected at least one a rank");
  require_in(data::kPrefetch, std::int64_t{options.prefetch}, "train: prefetch");
  require_in(data::kReaders, std::int64_t{options.readers}, "train: readers");
  FLOODTIDE_REQUIRE(options.epochs >= 1, invalid_argument, "train: epochs is ", options.epochs, ", expected at least 1");
}

std::int64_t Walkers::local() const noexcept {
  return (options_.walkers - options_.rank + options_.ranks - 1) / options_.ranks;
}

}  // namespace floodtide::train
