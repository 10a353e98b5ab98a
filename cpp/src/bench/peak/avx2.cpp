// SPDX-License-Identifier: Apache-2.0
#include "bench/peak/body.hpp"

#if !defined(__AVX2__) || !defined(__FMA__)
#error "compile this file for its instruction set"
#endif

namespace floodtide::bench {

const PeakLoop kPeakAvx2 = peak_of<8>;

}  // namespace floodtide::bench
