// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "floodtide/nn/ffn.hpp"
#include "floodtide/segment/flooder.hpp"

namespace floodtide::segment {

/// Return a Predictor that evaluates a network, which must outlive it. Several flooders may use one network at the same time.
///
/// The objects of a flooder need the same network. If its parameters change after this call, the Predictor throws
/// Error(in_use).
/// @param forward as for Ffn::forward
[[nodiscard]] Predictor network_predictor(nn::Ffn& network, std::optional<nn::Forward> forward = {});

}  // namespace floodtide::segment
