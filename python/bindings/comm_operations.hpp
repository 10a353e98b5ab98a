// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "floodtide/comm/communicator.hpp"

namespace floodtide::bindings {

using CommunicatorClass = pybind11::class_<comm::Communicator, std::shared_ptr<comm::Communicator>>;

/// Register the methods of the communicator that move arrays. register_comm calls this.
void register_operations(pybind11::module_& c, CommunicatorClass& communicator);

}  // namespace floodtide::bindings
