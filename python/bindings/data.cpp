// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <pybind11/stl.h>

#include <filesystem>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/data/examples.hpp"
#include "floodtide/data/partition.hpp"
#include "floodtide/data/synth.hpp"
#include "floodtide/data/volume.hpp"
#include "options.hpp"
#include "path_name.hpp"
#include "volume_reference.hpp"

namespace floodtide::bindings {
namespace {

/// Return the path of a file in the folder of this module.
std::string beside_this_module(const char* name) {
  Dl_info here{};
  FLOODTIDE_REQUIRE(::dladdr(reinterpret_cast<const void*>(&beside_this_module), &here) != 0, internal,
                    "the file of floodtide._core is unknown");
  return std::filesystem::absolute(here.dli_fname).replace_filename(name);
}

void register_files(py::module_& m) {
  data::set_hdf5_checker(beside_this_module("_hdf5_check"));
  m.def(
      "has_attributes",
      [](const std::string& file, const std::string& object, std::vector<std::string> names) {
        const data::Hdf5File opened = data::Hdf5File::open(file);
        std::erase_if(names, [&](const std::string& name) { return !opened.has_attribute(object, name); });
        return names;
      },
      py::arg("file"), py::arg("object"), py::arg("names"), py::call_guard<py::gil_scoped_release>(),
      "The attributes of these names that a dataset or group of an HDF5 file has.");
  m.def(
      "absent_chunks",
      [](const std::string& file, const std::string& dataset) { return data::Hdf5File::open(file).absent_chunks(dataset); },
      py::arg("file"), py::arg("dataset"), py::call_guard<py::gil_scoped_release>(),
      "How many chunks of a dataset do not exist, and how many it has if all exist.");
  m.def(
      "require_block",
      [](const std::string& file, const std::string& dataset, const std::vector<std::int64_t>& start,
         const std::vector<std::int64_t>& count) { data::Hdf5File::open(file).require_block(dataset, start, count); },
      py::arg("file"), py::arg("dataset"), py::arg("start"), py::arg("count"), py::call_guard<py::gil_scoped_release>(),
      "Raise an InvalidFileError if a chunk of a block is damaged, an OutOfRangeError if the block is not inside the dataset.");
  m.def(
      "exists", [](const std::string& file, const std::string& object) { return data::Hdf5File::open(file).exists(object); },
      py::arg("file"), py::arg("object"), py::call_guard<py::gil_scoped_release>(),
      "Whether an HDF5 file has a dataset or group of this name.");
  m.def(
      "check_output",
      [](const PathName& path, const std::string& command, const std::vector<std::string>& objects,
         const std::string& described) {
        data::Hdf5File::check_output(path.text, {.command = command, .objects = objects, .format = {}, .described = described});
      },
      py::arg("path"), py::arg("command"), py::arg("objects"), py::arg("described") = "",
      py::call_guard<py::gil_scoped_release>(),
      "Raise what writing these objects in the name of a command would raise, without making anything.");
  m.def(
      "parse_dataset_name",
      [](const std::string& reference) {
        const data::DatasetName parsed = data::parse_dataset_name(reference);
        return std::pair(parsed.file, parsed.dataset);
      },
      py::arg("reference"));
}

void register_partition(py::module_& m) {
  using data::PartitionJob;
  py::class_<PartitionJob>(m, "PartitionJob")
      .def(py::init([](const data::VolumeReference& labels, std::vector<double> thresholds, const Vec3& lom_radius,
                       std::int64_t min_size, const std::optional<Box>& box) {
             const py::gil_scoped_release unlocked;
             return std::make_unique<PartitionJob>(labels,
                                                   data::PartitionOptions{std::move(thresholds), lom_radius, min_size, box});
           }),
           py::arg("labels"), py::arg("thresholds"), py::arg("lom_radius"), py::arg("min_size"), py::arg("box"))
      .def_property_readonly("counting_blocks", &PartitionJob::counting_blocks)
      .def_property_readonly("blocks", &PartitionJob::blocks)
      .def("block", &PartitionJob::block, py::arg("number"))
      .def(
          "count",
          [](const PartitionJob& job, std::int64_t begin, std::int64_t end, const ProgressCallback& progress) {
            const Progress callback = progress_of(progress);
            return to_numpy(without_lock([&] { return job.count(begin, end, callback); }));
          },
          py::arg("begin"), py::arg("end"), py::arg("progress"))
      .def(
          "keep_large",
          [](PartitionJob& job, const std::vector<Int64Array>& tables) {
            std::vector<View<const std::int64_t, 2>> parts;
            for (const Int64Array& table : tables) parts.push_back(view_of<const std::int64_t, 2>(table, "label sizes"));
            job.keep_large(parts);
          },
          py::arg("tables"))
      .def(
          "compute",
          [](const PartitionJob& job, std::int64_t begin, std::int64_t end)->Typed<"list[numpy.typing.NDArray[numpy.uint8]]"> {
            auto blocks = without_lock([&] { return job.compute(begin, end); });
            py::list result;
            for (Tensor<std::uint8_t, 3>& block : blocks) result.append(to_numpy(std::move(block)));
            return result;
          },
          py::arg("begin"), py::arg("end"));
}

void register_examples(py::module_& m) {
  m.def(
      "limits",
      []() -> NamedLimits {
        return py::dict(py::arg("prefetch") = dict_of(data::kPrefetch), py::arg("readers") = dict_of(data::kReaders));
      },
      "Ranges of reading ahead, by name; see floodtide.base.limits.");
  using data::ExampleSource;
  using data::SourceOptions;
  using Reference = data::VolumeReference;
  py::class_<SourceOptions>(m, "SourceOptions", "A volume of training data; see floodtide.data.TrainingVolume.")
      .def(py::init([](std::string name, const Reference& image, const Reference& labels, const Reference& partitions,
                       const std::optional<Box>& box, double mean, double deviation) {
             return SourceOptions{std::move(name), image, labels, partitions, box, mean, deviation};
           }),
           py::kw_only(), py::arg("name"), py::arg("image"), py::arg("labels"), py::arg("partitions") = "",
           py::arg("box") = py::none(), py::arg("mean") = 0.0, py::arg("std") = 1.0);
  Options<data::ExampleOptions>(m, "ExampleOptions", "See floodtide.data.Shards.")
      .field("patch_size", &data::ExampleOptions::patch_size)
      .field("seed", &data::ExampleOptions::seed)
      .field("walkers", &data::ExampleOptions::walkers)
      .field("augmentation", &data::ExampleOptions::augmentation)
      .field("softness", &data::ExampleOptions::softness);
  py::class_<ExampleSource>(m, "ExampleSource")
      .def(py::init([](const std::vector<SourceOptions>& volumes, const data::ExampleOptions& options,
                       const ProgressCallback& progress) {
             const Progress callback = progress_of(progress);
             const py::gil_scoped_release unlocked;
             return std::make_unique<ExampleSource>(volumes, options, callback);
           }),
           py::arg("volumes"), py::arg("options"), py::arg("progress"))
      .def_property_readonly("examples", &ExampleSource::examples)
      .def("per_walker", &ExampleSource::per_walker, py::arg("walker"))
      .def("set_load_delay", &ExampleSource::set_load_delay, py::arg("seconds"),
           "For benchmarks: every load begins with so many seconds of sleep.")
      .def(
          "centre",
          [](const ExampleSource& source, std::int64_t walker, std::int64_t epoch, std::int64_t index) {
            const py::gil_scoped_release unlocked;
            const data::Centre centre = source.centre({walker, epoch, index});
            return std::pair(centre.volume, centre.position);
          },
          py::arg("walker"), py::arg("epoch"), py::arg("index"))
      .def(
          "load",
          [](const ExampleSource& source, std::int64_t walker, std::int64_t epoch, std::int64_t index) {
            auto example = without_lock([&] { return source.load({walker, epoch, index}); });
            return std::pair(to_numpy(std::move(example.image)), to_numpy(std::move(example.labels)));
          },
          py::arg("walker"), py::arg("epoch"), py::arg("index"));
}

void register_synth(py::module_& m) {
  m.def(
      "synth",
      [](const Vec3& shape, std::uint64_t seed, const ProgressCallback& progress) {
        const Progress callback = progress_of(progress);
        auto volume = without_lock([&] { return data::make_synthetic_volume({shape, seed}, callback); });
        return std::pair(to_numpy(std::move(volume.image)), to_numpy(std::move(volume.labels)));
      },
      py::arg("shape"), py::arg("seed"), py::arg("progress"));
}

}  // namespace

void register_data(py::module_& m) {
  py::module_ data = m.def_submodule("data", "Volumes, partitions, training examples");
  register_volumes(data);
  register_files(data);
  register_hdf5_writer(data);
  register_channels(data);
  register_partition(data);
  register_patches(data);  // examples take their augmentation
  register_examples(data);
  register_synth(data);
}

}  // namespace floodtide::bindings
