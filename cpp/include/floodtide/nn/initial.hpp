// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace floodtide::nn {

/// Initial parameters of a new network: random numbers from the seed in its options, or zeros. Use zeros if the caller sets all
/// parameters anyway.
enum class Initial { random, zero };

}  // namespace floodtide::nn
