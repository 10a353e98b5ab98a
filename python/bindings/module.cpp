// SPDX-License-Identifier: Apache-2.0
// Definition of the binding module. It only calls the registration functions.
#include "bindings.hpp"

PYBIND11_MODULE(_core, m) {
  m.doc() = "C++ core of floodtide";
  using namespace floodtide::bindings;
  register_errors(m);
  register_base(m);
  register_choices(m);
  register_nn(m);
  register_unet(m);
  register_optim(m);
  register_comm(m);
  register_data(m);
  register_evaluate(m);
  register_segment(m);
  register_agglomerate(m);
  register_train(m);
  register_sample_training(m);
  register_bench(m);
}
