// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
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
namespace {

constexpr int kInterrupted = 130;  // exit status of a program that Ctrl-C has ended

// Global variables, because a signal handler has no other access to its data.
volatile std::sig_atomic_t interrupts = 0;
char texts[2][256];
std::size_t bytes[2];
void (*next_handler)(int) = nullptr;

void count(int number) {
  const int before = interrupts;
  interrupts = 1;
  static_cast<void>(!::write(STDERR_FILENO, texts[before], bytes[before]));
  if (before > 0) ::_exit(kInterrupted);
  next_handler(number);
}

/// Install a handler that runs before Python's handler. Python's handler only sets a flag for the interpreter.
void count_interrupts(const std::string& first, const std::string& second) {
  struct sigaction action{};
  ::sigaction(SIGINT, nullptr, &action);
  if ((action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL) return;
  bytes[0] = first.copy(texts[0], sizeof texts[0]);
  bytes[1] = second.copy(texts[1], sizeof texts[1]);
  interrupts = 0;
  if (action.sa_handler != count) next_handler = action.sa_handler;
  action.sa_handler = count;
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace

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
  m.def("count_interrupts", &count_interrupts, py::arg("first"), py::arg("second"),
        "Handle SIGINT until Python sets another handler: each of the first two signals writes its text, and the second one "
        "ends the process at once.");
}

}  // namespace floodtide::bindings
