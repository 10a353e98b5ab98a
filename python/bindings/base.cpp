// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <span>
#include <string>
#include <string_view>

#include "bindings.hpp"
#include "floodtide/base/available_memory.hpp"
#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/staged_file.hpp"
#include "path_name.hpp"

namespace floodtide::bindings {

void register_base(py::module_& m) {
  m.attr("__version__") = FLOODTIDE_VERSION;
  m.def(
      "build_info",
      []() -> NamedTexts {
        return py::dict(py::arg("compiler") = FLOODTIDE_COMPILER, py::arg("build_type") = FLOODTIDE_BUILD_TYPE,
                        py::arg("hdf5") = FLOODTIDE_HDF5_VERSION, py::arg("eigen") = FLOODTIDE_EIGEN_VERSION);
      },
      "What this binary was built with, by name.");
  m.def("set_num_threads", &set_num_threads, py::arg("count"), "Threads that the compute of this rank uses.");
  m.def("num_threads", &num_threads);
  m.def("available_cores", &available_cores, "Cores that this process may run on.");
  m.def("active_isa", [] { return std::string(name(active_isa())); }, "Instruction-set level in use (FLOODTIDE_ISA caps it).");
  m.def("processor_isa", [] { return std::string(name(processor_isa())); });
  m.def("processor_name", &processor_name);
  m.def("resident_bytes", &resident_bytes);
  m.def("peak_resident_bytes", &peak_resident_bytes);
  m.def("allocation_count", &allocation_count);
  m.def("describe_bytes", &describe_bytes, py::arg("bytes"), "A size for people: 1.5 GiB.");
  m.def("available_bytes", [] { return available_bytes(); }, "Memory that this process could still get; None if unknown.");
  m.def(
      "output_target", [](const PathName& path) { return py::bytes(output_target(path.text)); }, py::arg("path"),
      "The file that an output of this name would replace, after symbolic links; raises if it cannot be an output.");
  m.def(
      "replace_file",
      [](const PathName& path, const py::bytes& content) {
        const std::string_view text = content;
        const py::gil_scoped_release unlocked;
        replace_file(path.text, std::as_bytes(std::span(text)));
      },
      py::arg("path"), py::arg("content"), "Replace a file by these bytes once they are on disk.");
}

}  // namespace floodtide::bindings
