// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/hdf5_handle.hpp"
#include "data/hdf5_trust.hpp"

namespace floodtide::data {

/// Read the text of variable length that an open attribute holds. Throws Error(invalid_file) starting with `what` if it is
/// damaged.
///
/// HDF5 keeps such texts in a heap without checksum and believes what stands there: of 30 damaged files that made the library
/// (1.10.8) crash or loop, all did so in this heap. So the library is asked only where the text is, and the heap is read here.
[[nodiscard]] std::string read_variable_text(hid_t attribute, const std::string& path, const Superblock& superblock,
                                             const std::string& what);

}  // namespace floodtide::data
