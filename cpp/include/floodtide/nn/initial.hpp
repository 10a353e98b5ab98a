// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace floodtide::nn {

/// What the parameters of a new network are: random numbers from its options' seed, or zeros, for whoever sets all of them.
enum class Initial { random, zero };

}  // namespace floodtide::nn
