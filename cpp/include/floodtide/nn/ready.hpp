// SPDX-License-Identifier: Apache-2.0
// Callbacks of a network to the code that sums gradients over ranks during the backward pass. The network itself does not know
// about ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace floodtide::nn {

/// Called with the index of each entry of a ParameterLayout when the gradient of this entry is complete.
using OnReady = std::function<void(std::size_t entry)>;

/// Sum `sums` over all ranks, in place. Collective: every rank calls this the same number of times in a training pass.
using SumOverRanks = std::function<void(std::span<double> sums)>;

}  // namespace floodtide::nn
