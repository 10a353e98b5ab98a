// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "floodtide/segment/result.hpp"

namespace floodtide::segment {

/// Return id, seed (in voxels of the whole volume) and number of network calls of the segments in an HDF5 file, in the order of
/// the file: what write() has written, or the same of google/ffn in datasets origins/{id,iters,start_zyx}. `voxels` and
/// `walltime_s` are 0.
/// Throws Error(invalid_file) if the file holds none, or is damaged.
[[nodiscard]] std::vector<Origin> read_origins(const std::string& path);

}  // namespace floodtide::segment
