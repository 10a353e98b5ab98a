// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "floodtide/data/volume.hpp"

namespace floodtide::data {

/// Open one channel of an HDF5 dataset with the axes channel, z, y, x, as a volume. A dataset of three axes is its channel 0.
/// Throws Error(invalid_file) as open_volume() does, and if there is no such channel.
[[nodiscard]] VolumePtr open_channel(const std::string& file, const std::string& dataset, std::int64_t channel,
                                     std::size_t chunk_cache_bytes = kChunkCacheBytes);

}  // namespace floodtide::data
