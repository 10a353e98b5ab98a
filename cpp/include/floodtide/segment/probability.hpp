// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::segment {

/// Return the probability of a logit as one byte: 1 + floor(254 p), 255 for p = 1, and 0 for a logit that is NaN. A byte q
/// above 0 stands for the probability (q - 0.5) / 255. Source: google/ffn, storage.quantize_probability.
[[nodiscard]] std::uint8_t quantised_probability(float logit) noexcept;

}  // namespace floodtide::segment
