// SPDX-License-Identifier: Apache-2.0
// The source of the AMX kernels with emulated tiles, compiled for the baseline processor, so that packing, addresses and
// remainders are tested on every machine.
#pragma GCC diagnostic ignored "-Wpsabi"  // no stable ABI for returning long vectors; only this file calls these functions
#include "kernels/bf16_chain/body.hpp"
#include "support/emulated_tiles.hpp"

namespace floodtide::kernels::bf16 {

extern const Kernels kAmxEmulated;
const Kernels kAmxEmulated = kernels_of<floodtide::test::EmulatedTiles>;

}  // namespace floodtide::kernels::bf16
