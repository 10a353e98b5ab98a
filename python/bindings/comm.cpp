// SPDX-License-Identifier: Apache-2.0
#include "bindings.hpp"

namespace floodtide::bindings {

void register_comm(py::module_&) {}

}  // namespace floodtide::bindings
