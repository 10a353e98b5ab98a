// SPDX-License-Identifier: Apache-2.0
// What a network tells, and asks of, those who sum its gradients over ranks while it still computes. It knows no ranks itself.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace floodtide::nn {

/// Is told the number of an entry of a ParameterLayout.
using OnReady = std::function<void(std::size_t entry)>;

/// Adds numbers up over all ranks, in place. Every rank calls it equally often in a training pass.
using SumOverRanks = std::function<void(std::span<double> sums)>;

}  // namespace floodtide::nn
