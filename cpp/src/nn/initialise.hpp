// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/tensor/parameters.hpp"

namespace floodtide::nn {

/// Set all weights to uniform numbers in +-sqrt(6 / (taps * (in + out))), and all biases to zero.
///
/// Weights are the arrays with at least two axes, [..., in, out]. Each array has its own random stream, so that its values do
/// not depend on other arrays.
/// Source: Glorot and Bengio, AISTATS 2010, eq. 16; the defaults of google/ffn's layers.
void initialise_glorot(const ParameterLayout& layout, std::uint64_t seed, std::span<float> out_parameters);

/// Set one array to normal numbers with mean 0 and this variance. `number` is the index of the array in the layout, and selects
/// the random stream.
void initialise_normal(const ParameterLayout& layout, std::size_t number, std::uint64_t seed, double variance,
                       std::span<float> out_parameters);

}  // namespace floodtide::nn
