// SPDX-License-Identifier: Apache-2.0
#include "bench/peak/body.hpp"

#if !defined(__AVX512F__)
#error "compile this file for its instruction set"
#endif

namespace floodtide::bench {

const PeakLoop kPeakAvx512 = peak_of<16>;

}  // namespace floodtide::bench
