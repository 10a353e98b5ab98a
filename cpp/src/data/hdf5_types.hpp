// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/hdf5_handle.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {

/// Return HDF5's id of the element type in memory.
[[nodiscard]] hid_t native_type(ElementType type);

/// Return the element type of a stored type. Throws Error(invalid_file) for other types; the message starts with `what`.
[[nodiscard]] ElementType element_type_of(hid_t type, const std::string& what);

}  // namespace floodtide::data
