// SPDX-License-Identifier: Apache-2.0
#include "bench/peak/body.hpp"

namespace floodtide::bench {

const PeakLoop kPeakGeneric = peak_of<4>;

}  // namespace floodtide::bench
