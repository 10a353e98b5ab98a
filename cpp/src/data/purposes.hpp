// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace floodtide::data {

// Purpose of each random stream of this folder (first argument of stream_id).
inline constexpr std::uint64_t kOrderPurpose = 0xDA7A0001;         ///< order of a class's examples in an epoch
inline constexpr std::uint64_t kAugmentationPurpose = 0xDA7A0002;  ///< permutation and reflections of one example
inline constexpr std::uint64_t kCentresPurpose = 0xDA7A0003;       ///< validation centres
inline constexpr std::uint64_t kSynthPurpose = 0xDA7A0005;         ///< synthetic volumes
inline constexpr std::uint64_t kPatchPurpose = 0xDA7A0007;         ///< position of a random patch
inline constexpr std::uint64_t kShardOrderPurpose = 0xDA7A0008;    ///< order of a walker's examples in an epoch
inline constexpr std::uint64_t kRotationPurpose = 0xDA7A0009;      ///< rotation and scale of one example
inline constexpr std::uint64_t kElasticPurpose = 0xDA7A000A;       ///< displacement of one example
inline constexpr std::uint64_t kShiftPurpose = 0xDA7A000B;         ///< shifted sections of one example
inline constexpr std::uint64_t kIntensityPurpose = 0xDA7A000C;     ///< intensities of one example
inline constexpr std::uint64_t kSectionPurpose = 0xDA7A000D;       ///< missing, dark and defocused sections of one example
inline constexpr std::uint64_t kNoisePurpose = 0xDA7A000E;         ///< noise of one example
inline constexpr std::uint64_t kObjectPurpose = 0xDA7A000F;        ///< faint objects of one example

}  // namespace floodtide::data
