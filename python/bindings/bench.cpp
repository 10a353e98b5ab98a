// SPDX-License-Identifier: Apache-2.0
#include "floodtide/kernels/dispatch.hpp"

#include <pybind11/stl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/bench/conv.hpp"
#include "floodtide/bench/limits.hpp"

namespace floodtide::bindings {
namespace {

Isa level_of(const std::string& level) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (name(isa) == level && isa <= processor_isa()) return isa;
  }
  raise(ErrorCode::invalid_argument, "bench: level '", level, "', expected generic, avx2 or avx512, and one that the ",
        "processor has (up to ", name(processor_isa()), ")");
}

/// With FLOODTIDE_VERBOSE=dispatch, write one line to standard error for each choice of a kernel.
void listen_to_dispatch() {
  const char* verbose = std::getenv("FLOODTIDE_VERBOSE");
  if (verbose == nullptr || std::string_view(verbose).find("dispatch") == std::string_view::npos) return;
  kernels::set_dispatch_listener(
      [](std::string_view line) { std::fprintf(stderr, "floodtide: %.*s\n", static_cast<int>(line.size()), line.data()); });
}

}  // namespace

void register_bench(py::module_& m) {
  using Unlock = py::call_guard<py::gil_scoped_release>;
  using bench::ConvPasses;
  listen_to_dispatch();
  py::module_ module = m.def_submodule("bench", "What `floodtide bench` measures. The caller measures the time.");
  module.def(
      "conv_kernels",
      [] {
        std::vector<std::pair<std::string, std::string>> result;
        for (const kernels::KernelName& kernel : kernels::conv3d_kernel_names()) {
          result.emplace_back(kernel.name, name(kernel.level));
        }
        return result;
      },
      "Return (name, instruction set) of the convolution kernels, the best first.");
  py::class_<ConvPasses>(module, "ConvPasses", "Passes of a convolution, which are checked first.")
      .def(py::init([](const Vec3& size, std::int64_t in_channels, std::int64_t out_channels, const Vec3& kernel,
                       const std::string& compute, const std::string& kernel_name) {
             const auto arithmetic = named<kernels::Compute>(compute);
             const py::gil_scoped_release unlocked;
             return std::make_unique<ConvPasses>(
                 bench::ConvOptions{size, in_channels, out_channels, kernel, arithmetic, kernel_name});
           }),
           py::arg("size"), py::arg("in_channels"), py::arg("out_channels"), py::arg("kernel"), py::arg("compute"),
           py::arg("kernel_name"))
      .def("forward", &ConvPasses::forward, Unlock())
      .def("backward_data", &ConvPasses::backward_data, Unlock())
      .def("backward_weights", &ConvPasses::backward_weights, Unlock())
      .def("kernel", &ConvPasses::kernel)
      .def("flops", &ConvPasses::flops);
  py::class_<bench::Peak>(module, "Peak", "Loop of multiply-adds on the threads of the moment.")
      .def(py::init([](const std::string& level) { return std::make_unique<bench::Peak>(level_of(level)); }), py::arg("level"),
           Unlock())
      .def("sample", &bench::Peak::sample, Unlock(),
           "Run the loop once, for a few milliseconds, and return its rate in 1e9 operations per second.");
}

}  // namespace floodtide::bindings
