// SPDX-License-Identifier: Apache-2.0
// Ranges of the network options. Constructors, configuration files, checkpoint attributes and Python arguments are all checked
// against these ranges. The largest values are far above those of published networks. They are small enough that sizes computed
// from them fit into 64 bits.
#pragma once

#include "floodtide/base/limits.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/unet.hpp"

namespace floodtide::nn {

inline constexpr Limits kFfnDepth{1, 1000};         ///< modules
inline constexpr Limits kFfnFeatures{1, 4096};      ///< channels
inline constexpr Limits kFieldOfView{1, 1023};      ///< voxels along an axis; odd
inline constexpr Limits kDelta{0, 511};             ///< voxels along an axis; at most (fov - 1) / 2
inline constexpr Limits kUNetDepth{1, 10};          ///< levels
inline constexpr Limits kUNetFeatures{16, 1024};    ///< channels; a multiple of kernels::kChannelMultiple
inline constexpr Limits kUNetChannels{1, 1024};     ///< channels of the images
inline constexpr Limits kClasses{1, kMostClasses};  ///< outputs; at least 2 for softmax
inline constexpr Limits kKernel{1, 3};              ///< taps along an axis: 1 or 3
inline constexpr Limits kPool{1, 4};                ///< factor from one level to the next, along an axis
inline constexpr Limits kDropout{.minimum = 0, .maximum = 1, .below = true};

/// Throws Error(code) if an option is outside its range. The message begins with `where` and names the option.
void require_valid(const FfnOptions& options, std::string_view where = "ffn", ErrorCode code = ErrorCode::invalid_argument);
void require_valid(const UNetOptions& options, std::string_view where = "unet", ErrorCode code = ErrorCode::invalid_argument);

}  // namespace floodtide::nn
