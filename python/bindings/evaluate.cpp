// SPDX-License-Identifier: Apache-2.0
#include "bindings.hpp"

namespace floodtide::bindings {

void register_evaluate(py::module_&) {}

}  // namespace floodtide::bindings
