// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "data/hdf5_handle.hpp"
#include "data/hdf5_trust.hpp"

namespace floodtide::data {

/// Read the `count` texts of variable length of an open attribute. Throws Error(invalid_file) if one is damaged; the message
/// starts with `what`.
///
/// HDF5 stores such texts in a heap without a checksum, and does not check the heap. All of 30 damaged files that made the
/// library (1.10.8) crash or loop did so in this heap. Therefore the library only returns the place of the text, and this
/// function reads the heap itself.
[[nodiscard]] std::vector<std::string> read_variable_texts(hid_t attribute, std::size_t count, const std::string& path,
                                                           const Superblock& superblock, const std::string& what);

}  // namespace floodtide::data
