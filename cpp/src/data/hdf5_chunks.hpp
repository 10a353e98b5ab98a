// SPDX-License-Identifier: Apache-2.0
// The HDF5 library (1.10.8) does not compare the size of a chunk, in the file or after decompression, with the size that the
// dataset needs. With a damaged chunk the library returns other memory of the process, or crashes.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>

#include "data/hdf5_handle.hpp"

namespace floodtide::data {

/// Indices of the chunks of a dataset that were checked.
using CheckedChunks = std::set<std::int64_t>;

/// Throws Error(invalid_file) if a chunk of the block [start, start + count) does not have the size that the dataset needs.
/// Reads compressed chunks without a checksum one additional time. Skips the chunks in `checked`. If filters that are not
/// looked into have made a chunk, calls `try_block` first, which throws if reading the block would harm this process. Returns
/// false for a virtual dataset, whose values are in chunks of other datasets.
[[nodiscard]] bool require_chunks(hid_t dataset, std::span<const std::int64_t> start, std::span<const std::int64_t> count,
                                  CheckedChunks& checked, const std::function<void()>& try_block, const std::string& where);

}  // namespace floodtide::data
