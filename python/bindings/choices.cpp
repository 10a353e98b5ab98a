// SPDX-License-Identifier: Apache-2.0
// Names of the enumerations that configurations use.
#include <pybind11/typing.h>

#include <functional>
#include <map>
#include <string>

#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/named.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/kernels/dispatch.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/segmentation_loss.hpp"
#include "floodtide/train/trainer.hpp"

namespace floodtide::bindings {
namespace {

using Choices = py::typing::Tuple<py::str, py::ellipsis>;

template <HasNames E>
Choices choices_of() {
  py::list all;
  for (const auto& row : names_of(E{}).rows) all.append(std::string(row.name));
  return py::tuple(all);
}

Choices choices(const std::string& enumeration) {
  static const std::map<std::string, Choices (*)(), std::less<>> known = {
      {"compute", &choices_of<kernels::Compute>},
      {"exactness", &choices_of<train::Exactness>},
      {"late", &choices_of<train::Late>},
      {"mode", &choices_of<train::Mode>},
      {"on_exhausted", &choices_of<train::OnExhausted>},
      {"output", &choices_of<nn::Output>},
      {"parallel", &choices_of<nn::Parallel>},
      {"wire", &choices_of<comm::Wire>},
  };
  const auto found = known.find(enumeration);
  FLOODTIDE_REQUIRE(found != known.end(), invalid_argument, "choices: there is no enumeration '", enumeration, "'");
  return found->second();
}

}  // namespace

void register_choices(py::module_& m) {
  m.def("choices", &choices, py::arg("enumeration"), "Return the names of the values of an enumeration, such as \"wire\".");
}

}  // namespace floodtide::bindings
