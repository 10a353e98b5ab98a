// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floodtide/nn/ffn.hpp"

namespace floodtide::nn {

/// Result of a measurement of forward passes.
struct ForwardChoice {
  Forward forward = Forward::layers;
  double fft_speedup =
      0.0;  ///< time layer by layer divided by the time with Fourier transforms; 0: Fourier transforms are unsupported
};

/// Measure which way of computing forward passes is faster for the field of view of these options, on num_threads() threads.
///
/// Fourier transforms must be at least 1.1 times as fast to be chosen, so that the choice seldom depends on what else runs on
/// the machine. Takes the time of about 16 forward passes.
[[nodiscard]] ForwardChoice fastest_forward(const FfnOptions& options);

}  // namespace floodtide::nn
