// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/walkers.hpp"

#include "floodtide/base/error.hpp"

namespace floodtide::train {

Walkers::Walkers(const WalkersOptions& options) : options_(options) {
  FLOODTIDE_REQUIRE(options.walkers >= options.ranks, invalid_argument, "train: ", options.walkers, " walkers for ",
                    options.ranks, " ranks, expected at least one a rank");
  FLOODTIDE_REQUIRE(options.prefetch >= 0, invalid_argument, "train: prefetch is ", options.prefetch, ", expected at least 0");
  FLOODTIDE_REQUIRE(options.readers >= 1, invalid_argument, "train: readers is ", options.readers, ", expected at least 1");
  FLOODTIDE_REQUIRE(options.epochs >= 1, invalid_argument, "train: epochs is ", options.epochs, ", expected at least 1");
}

std::int64_t Walkers::local() const noexcept {
  return (options_.walkers - options_.rank + options_.ranks - 1) / options_.ranks;
}

}  // namespace floodtide::train
