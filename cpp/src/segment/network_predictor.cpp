// SPDX-License-Identifier: Apache-2.0
#include "floodtide/segment/network_predictor.hpp"

namespace floodtide::segment {

Predictor network_predictor(nn::Ffn& network, std::optional<nn::Forward> forward) {
  return [&network, forward, same = nn::SameParameters(network.use())](View<const float, 3> image, View<const float, 3> logits,
                                                                       View<float, 3> out_logits) {
    const nn::FfnExample field{image, logits, out_logits, {}, {}};
    network.forward({&field, 1}, forward);
    same.require("segment");
  };
}

}  // namespace floodtide::segment
