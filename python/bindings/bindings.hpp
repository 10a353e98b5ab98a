// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "floodtide/comm/communicator.hpp"
#include "numbers.hpp"
#include "types.hpp"

namespace floodtide::bindings {

namespace py = pybind11;

using CommunicatorClass = py::class_<comm::Communicator, std::shared_ptr<comm::Communicator>>;

void register_errors(py::module_& m);
void register_base(py::module_& m);
void register_choices(py::module_& m);
void register_nn(py::module_& m);
void register_unet(py::module_& m);
void register_optim(py::module_& m);
void register_comm(py::module_& m);
void register_operations(py::module_& c, CommunicatorClass& communicator);  // part of register_comm
void register_data(py::module_& m);
void register_patches(py::module_& m);      // part of register_data
void register_volumes(py::module_& m);      // part of register_data
void register_hdf5_writer(py::module_& m);  // part of register_data
void register_channels(py::module_& m);     // part of register_data
void register_evaluate(py::module_& m);
void register_segment(py::module_& m);
void register_agglomerate(py::module_& m);  // call this after register_segment
void register_train(py::module_& m);
void register_sample_training(py::module_& m);  // training of U-Nets
void register_bench(py::module_& m);

}  // namespace floodtide::bindings
