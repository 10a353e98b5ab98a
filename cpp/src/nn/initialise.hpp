// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "floodtide/tensor/parameters.hpp"

namespace floodtide::nn {

/// Weights (arrays of rank above 1, [..., in, out]) uniform in +-sqrt(6 / (taps * (in + out))), biases zero. Each array has its
/// own stream of the seed, so that its values do not depend on the arrays before it.
/// Source: Glorot and Bengio, AISTATS 2010, eq. 16; the defaults of google/ffn's layers.
void initialise_glorot(const ParameterLayout& layout, std::uint64_t seed, std::span<float> out_parameters);

/// One array of normal numbers with mean 0; its stream of the seed is its number in the layout.
void initialise_normal(const ParameterLayout& layout, std::size_t number, std::uint64_t seed, double variance,
                       std::span<float> out_parameters);

}  // namespace floodtide::nn
