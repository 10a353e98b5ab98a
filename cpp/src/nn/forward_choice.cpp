// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/forward_choice.hpp"

#include <algorithm>
#include <limits>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::nn {
namespace {

constexpr int kRounds = 2, kPasses = 3;
constexpr double kWorth = 1.1;

}  // namespace

ForwardChoice fastest_forward(const FfnOptions& options) {
  Ffn layers(options), fft(options);
  if (!layers.fft_unsupported(options.fov).empty()) return {};
  Tensor<float, 3> image(options.fov), logits(options.fov), updated(options.fov);
  Philox random(1, 0);
  for (float& value : image.span()) value = static_cast<float>(random.normal());
  const FfnExample example{image.view(), logits.view(), updated.view(), {}, {}};
  const auto least_s = [&](Ffn& network, Forward forward) {
    network.forward({&example, 1}, forward);  // plans memory and weights, and brings them into the caches
    double least = std::numeric_limits<double>::infinity();
    for (int pass = 0; pass < kPasses; ++pass) {
      const double start_s = now_s();
      network.forward({&example, 1}, forward);
      least = std::min(least, now_s() - start_s);
    }
    return least;
  };
  double layers_s = std::numeric_limits<double>::infinity(), fft_s = layers_s;
  for (int round = 0; round < kRounds; ++round) {
    layers_s = std::min(layers_s, least_s(layers, Forward::layers));
    fft_s = std::min(fft_s, least_s(fft, Forward::fft));
  }
  const double speedup = layers_s / fft_s;
  return {speedup >= kWorth ? Forward::fft : Forward::layers, speedup};
}

}  // namespace floodtide::nn
