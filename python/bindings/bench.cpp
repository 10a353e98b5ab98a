// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bindings.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/bench/bandwidth.hpp"
#include "floodtide/bench/conv.hpp"
#include "floodtide/bench/measure.hpp"
#include "floodtide/bench/optimizer.hpp"
#include "floodtide/bench/scaling.hpp"
#include "floodtide/bench/step.hpp"
#include "floodtide/kernels/dispatch.hpp"

namespace floodtide::bindings {
namespace {

Isa level_of(const std::string& level) {
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (name(isa) == level && isa <= processor_isa()) return isa;
  }
  raise(ErrorCode::invalid_argument, "bench: level '", level, "', expected generic, avx2 or avx512, and one that the ",
        "processor has (up to ", name(processor_isa()), ")");
}

/// Return what all rows have of their samples, in seconds.
py::dict to_dict(const bench::Samples& samples) {
  py::dict result;
  result["samples"] = samples.size();
  result["median_s"] = samples.quantile(0.5);
  result["p10_s"] = samples.quantile(0.1);
  result["p90_s"] = samples.quantile(0.9);
  result["min_s"] = samples.quantile(0.0);
  return result;
}

/// Return a row as a dictionary. Times are in seconds, rates in 1e9 operations per second.
py::dict to_dict(const bench::Row& row) {
  const double median_s = row.samples.quantile(0.5);
  const double least_s = row.samples.quantile(0.0);
  py::dict result = to_dict(row.samples);
  result["name"] = row.name;
  result["kernel"] = row.kernel;
  result["level"] = row.level;
  result["shape"] = row.shape;
  result["threads"] = row.threads;
  result["ranks"] = 1;
  result["gflops"] = row.flops / median_s * 1e-9;
  result["peak_gflops"] = row.peak_gflops;
  result["ratio"] = row.flops / median_s * 1e-9 / row.peak_gflops;
  result["best_ratio"] = row.flops / least_s * 1e-9 / row.best_peak_gflops;
  return result;
}

/// Return one row of the scaling benchmark: the steps of `ranks` ranks, compared with the peak loops of the same ranks.
py::dict scaling_row(const bench::Scaling& scaling, int ranks, const bench::Samples& steps, const bench::Samples& peak) {
  bench::Row row;
  row.name = "scaling";
  row.kernel = "step";
  row.level = name(active_isa());
  row.threads = num_threads();
  row.flops = scaling.step_flops * ranks;
  row.samples = steps;
  row.peak_gflops = scaling.peak_flops * ranks / peak.quantile(0.5) * 1e-9;
  row.best_peak_gflops = scaling.peak_flops * ranks / peak.quantile(0.0) * 1e-9;
  py::dict result = to_dict(row);
  result["ranks"] = ranks;
  return result;
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
  listen_to_dispatch();
  py::module_ module = m.def_submodule("bench", "Benchmarks of `floodtide bench`. Rows are dictionaries.");
  module.def(
      "peak",
      [](const std::string& level, double seconds) -> Record {
        const Isa isa = level_of(level);
        return to_dict(without_lock([&] { return bench::peak_row(isa, seconds); }));
      },
      py::arg("level"), py::arg("seconds"),
      "Measure the peak multiply-add rate of an instruction set with the current threads.");
  module.def(
      "bandwidth",
      [](std::int64_t bytes_per_thread, double seconds) -> Record {
        const auto reads = without_lock([&] { return bench::measure_reads(bytes_per_thread, seconds); });
        py::dict result = to_dict(reads.samples);
        result["threads"] = num_threads();
        result["gb_per_s"] = reads.bytes / reads.samples.quantile(0.5) * 1e-9;
        return result;
      },
      py::arg("bytes_per_thread"), py::arg("seconds"), "Measure reads of memory with the current threads.");
  module.def("enough", &bench::enough, py::arg("samples"), py::arg("spent_s"),
             "Return True if a benchmark has enough samples: 20, or 3 if all together took 2 s.");
  module.def(
      "conv",
      [](const Vec3& size, std::int64_t in_channels, std::int64_t out_channels, const Vec3& kernel, bool relu_input,
         const std::string& compute, double seconds, const std::string& against) -> Records {
        const auto rows = without_lock([&] {
          return bench::conv(
              {size, in_channels, out_channels, kernel, relu_input, named<kernels::Compute>(compute), seconds, against});
        });
        py::list result;
        for (const bench::Row& row : rows) result.append(to_dict(row));
        return result;
      },
      py::arg("size"), py::arg("in_channels"), py::arg("out_channels"), py::arg("kernel"), py::arg("relu_input"),
      py::arg("compute"), py::arg("seconds"), py::arg("against"),
      "Measure the three passes of a convolution with the current threads.");
  py::class_<bench::Workload>(module, "Workload", "The computation of a rank in a step that `scaling` measures.");
  module.def(
      "ffn_workload",
      [](int depth, const Vec3& fov, int features, int rank) {
        return bench::ffn_workload({.depth = depth, .fov = fov, .deltas = {0, 0, 0}, .features = features}, rank);
      },
      py::arg("depth"), py::arg("fov"), py::arg("features"), py::arg("rank"));
  module.def(
      "unet_workload",
      [](int depth, const std::array<std::int64_t, 2>& size, int features, std::int64_t batch, int rank) {
        return bench::unet_workload({.depth = depth, .features = features}, {1, size[0], size[1]}, batch, rank);
      },
      py::arg("depth"), py::arg("size"), py::arg("features"), py::arg("batch"), py::arg("rank"));
  module.def(
      "scaling",
      [](comm::Communicator& communicator, bench::Workload& workload, double seconds, const std::string& algorithm) -> Records {
        const auto result = without_lock([&] { return bench::measure_scaling(communicator, workload, seconds, algorithm); });
        py::list rows;
        rows.append(scaling_row(result, 1, result.alone, result.peak_alone));
        py::dict all = scaling_row(result, communicator.size(), result.together, result.peak_together);
        all["speedup"] = result.speedup(communicator.size());
        all["peak_speedup"] = result.peak_speedup(communicator.size());
        all["share_of_peak_speedup"] = result.speedup(communicator.size()) / result.peak_speedup(communicator.size());
        rows.append(all);
        return rows;
      },
      py::arg("communicator"), py::arg("workload"), py::arg("seconds"), py::arg("algorithm"),
      "Measure training steps of one rank and of all ranks, and the peak of each. Collective.");
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
  py::class_<bench::NetworkPasses>(module, "NetworkPasses",
                                   "Passes of a network for benchmarks; see floodtide.bench.passes.")
      .def(py::init([](int depth, const Vec3& fov, int features, std::int64_t batch, const std::string& compute,
                       const std::string& parallel, const std::string& kernel) {
             const py::gil_scoped_release unlocked;
             const nn::FfnOptions options{.depth = depth,
                                          .fov = fov,
                                          .deltas = {0, 0, 0},
                                          .features = features,
                                          .compute = named<kernels::Compute>(compute),
                                          .parallel = named<nn::Parallel>(parallel),
                                          .kernel = kernel};
             return std::make_unique<bench::NetworkPasses>(options, batch);
           }),
           py::arg("depth"), py::arg("fov"), py::arg("features"), py::arg("batch"), py::arg("compute"), py::arg("parallel"),
           py::arg("kernel") = "")
      .def("step", &bench::NetworkPasses::step, py::call_guard<py::gil_scoped_release>())
      .def("forward", &bench::NetworkPasses::forward, py::call_guard<py::gil_scoped_release>())
      .def(
          "use_fastest_forward", [](bench::NetworkPasses& self) { return std::string(name(self.use_fastest_forward())); },
          py::call_guard<py::gil_scoped_release>(), "Compute forward passes in the faster way, and return it.")
      .def("step_flops", &bench::NetworkPasses::step_flops)
      .def("forward_flops", &bench::NetworkPasses::forward_flops)
      .def("kernel_names", &bench::NetworkPasses::kernel_names)
      .def("workspace_bytes", [](const bench::NetworkPasses& self) { return self.network().workspace_bytes(); });
  py::class_<bench::OptimizerPasses>(module, "OptimizerPasses", "Steps of an optimizer; see floodtide.bench.kernels.")
      .def(py::init<const std::string&, std::int64_t>(), py::arg("name"), py::arg("parameters"))
      .def("step", &bench::OptimizerPasses::step, py::call_guard<py::gil_scoped_release>())
      .def("sweep", &bench::OptimizerPasses::sweep, py::call_guard<py::gil_scoped_release>());
  py::class_<bench::Peak>(module, "Peak", "Loop of multiply-adds on the threads of the moment, with the best instruction set.")
      .def(py::init([] { return std::make_unique<bench::Peak>(active_isa()); }), py::call_guard<py::gil_scoped_release>())
      .def("sample", &bench::Peak::sample, py::call_guard<py::gil_scoped_release>(),
           "Run the loop once, for a few milliseconds, and return its rate in 1e9 operations per second.");
}

}  // namespace floodtide::bindings
