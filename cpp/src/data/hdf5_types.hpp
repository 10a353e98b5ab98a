// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/hdf5_handle.hpp"
#include "floodtide/data/hdf5.hpp"

namespace floodtide::data {

/// HDF5's id of the element type in memory.
[[nodiscard]] hid_t native_type(ElementType type);

/// The element type of a stored type. Throws Error(invalid_file) starting with `what` if it is none of ours.
[[nodiscard]] ElementType element_type_of(hid_t type, const std::string& what);

}  // namespace floodtide::data
