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
      "Return {name: version} of the compiler and libraries that this binary was built with.");
  m.def("set_num_threads", &set_num_threads, py::arg("count"), "Set the number of compute threads of this rank.");
  m.def("num_threads", &num_threads);
  m.def("available_cores", &available_cores, "Return the number of cores that this process may use.");
  m.def(
      "active_isa", [] { return std::string(name(active_isa())); },
      "Return the instruction set in use (FLOODTIDE_ISA limits it).");
  m.def("processor_isa", [] { return std::string(name(processor_isa())); });
  m.def("processor_name", &processor_name);
  m.def("resident_bytes", &resident_bytes);
  m.def("peak_resident_bytes", &peak_resident_bytes);
  m.def("describe_bytes", &describe_bytes, py::arg("bytes"), "Return a number of bytes as text, such as 1.5 GiB.");
  m.def(
      "available_bytes", [] { return available_bytes(); },
      "Return the memory in bytes that this process can still get; None if unknown.");
  m.def(
      "output_target", [](const PathName& path) { return py::bytes(output_target(path.text)); }, py::arg("path"),
      "Return the file that an output of this name would replace, with symbolic links resolved. Raises if it cannot be an "
      "output.");
  m.def(
      "replace_file",
      [](const PathName& path, const py::bytes& content) {
        const std::string_view text = content;
        const py::gil_scoped_release unlocked;
        replace_file(path.text, std::as_bytes(std::span(text)));
      },
      py::arg("path"), py::arg("content"), "Replace a file atomically by these bytes.");
}

}  // namespace floodtide::bindings
