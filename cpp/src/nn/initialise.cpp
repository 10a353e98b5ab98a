// SPDX-License-Identifier: Apache-2.0
#include "nn/initialise.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/base/random.hpp"

namespace floodtide::nn {
namespace {

constexpr std::uint64_t kPurpose = 0x1417;  // purpose of the random stream: initial weights

}  // namespace

void initialise_glorot(const ParameterLayout& layout, std::uint64_t seed, std::span<float> out_parameters) {
  std::uint64_t number = 0;
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    const std::span<float> values = part(out_parameters, entry);
    Philox random(seed, stream_id(kPurpose, number++));
    if (entry.shape.size() < 2) {
      std::ranges::fill(values, 0.0F);
      continue;
    }
    const std::int64_t in = entry.shape[entry.shape.size() - 2], out = entry.shape.back();
    const double taps = static_cast<double>(entry.size / (in * out));
    const double limit = std::sqrt(6.0 / (taps * static_cast<double>(in + out)));
    for (float& value : values) value = static_cast<float>(limit * (2 * random.uniform() - 1));
  }
}

void initialise_normal(const ParameterLayout& layout, std::size_t number, std::uint64_t seed, double variance,
                       std::span<float> out_parameters) {
  Philox random(seed, stream_id(kPurpose, number));
  for (float& value : part(out_parameters, layout.entry(number)))
    value = static_cast<float>(std::sqrt(variance) * random.normal());
}

}  // namespace floodtide::nn
