// SPDX-License-Identifier: Apache-2.0
// Patches of labelled images, their augmentation, and what networks learn of them.
#include <pybind11/stl.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/data/deformation.hpp"
#include "floodtide/data/intensity.hpp"
#include "floodtide/data/patch_source.hpp"
#include "options.hpp"
#include "volume_reference.hpp"

namespace floodtide::bindings {
namespace {

using data::Augmentation;
using data::LabelledImage;
using data::Labels;
using data::PatchOptions;
using data::PatchSource;
using data::Region;
using data::Targets;

using Sample = Typed<
    "tuple[int, numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.uint8]] | "
    "tuple[int, numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32], "
    "numpy.typing.NDArray[numpy.float32]]">;

/// Return a sample as (group, image, classes) or (group, image, targets, weights).
template <class Read>
Sample read(const Read& read_sample) {
  auto sample = without_lock([&] { return read_sample(); });
  const std::int64_t group = sample.group;
  if (sample.targets.size() == 0) {
    return py::make_tuple(group, to_numpy(std::move(sample.image)), to_numpy(std::move(sample.classes)));
  }
  return py::make_tuple(group, to_numpy(std::move(sample.image)), to_numpy(std::move(sample.targets)),
                        to_numpy(std::move(sample.weights)));
}

/// What augmentation draws for one example, for tests and pictures: see deformation.hpp and intensity.hpp.
Typed<"dict[str, typing.Any]"> drawn(const Augmentation& augmentation, const Vec3& patch, std::uint64_t seed,
                                     std::int64_t epoch, std::int64_t number) {
  const data::ExampleKey key{seed, epoch, number};
  data::require_valid(augmentation, patch);
  data::Deformation deformation = data::draw_deformation(augmentation, patch, key);
  const data::Intensities intensities = data::draw_intensities(augmentation, patch[0], key);
  py::list control, sections;
  for (Tensor<double, 3>& component : deformation.control) {
    control.append(component.size() == 0 ? py::object(py::none()) : to_numpy(std::move(component)));
  }
  for (const data::Intensities::Section& section : intensities.sections) {
    sections.append(py::make_tuple(section.blur, section.gain, section.offset, section.missing));
  }
  return py::dict(py::arg("source_axis") = deformation.axes.source_axis, py::arg("reversed") = deformation.axes.reversed,
                  py::arg("matrix") = deformation.matrix, py::arg("control") = control, py::arg("shift") = deformation.shift,
                  py::arg("blur") = intensities.blur, py::arg("gamma") = intensities.gamma, py::arg("gain") = intensities.gain,
                  py::arg("offset") = intensities.offset, py::arg("sections") = sections);
}

void register_augmentation(py::module_& m) {
  Options<Augmentation>(m, "Augmentation", "Random changes of training patches; see floodtide.data.Augmentation.")
      .field("permutable_axes", &Augmentation::permutable_axes)
      .field("reflectable_axes", &Augmentation::reflectable_axes)
      .field("rotation_deg", &Augmentation::rotation_deg)
      .field("rotate_in_space", &Augmentation::rotate_in_space)
      .field("scale", &Augmentation::scale)
      .field("elastic", &Augmentation::elastic)
      .field("blur", &Augmentation::blur)
      .field("gamma", &Augmentation::gamma)
      .field("gain", &Augmentation::gain)
      .field("offset", &Augmentation::offset)
      .field("noise", &Augmentation::noise)
      .field("faint_object", &Augmentation::faint_object)
      .field("missing_section", &Augmentation::missing_section)
      .field("dark_section", &Augmentation::dark_section)
      .field("defocused_section", &Augmentation::defocused_section)
      .field("shifted_section", &Augmentation::shifted_section)
      .def("drawn", &drawn, py::arg("patch"), py::arg("seed"), py::arg("epoch"), py::arg("number"),
           "Return what is drawn for one example, by name.");
}

void register_targets(py::module_& m) {
  py::class_<Targets, std::shared_ptr<Targets>>(m, "Targets", "What a network learns of labels.")
      .def_property_readonly("outputs", &Targets::outputs)
      .def_property_readonly("classes", &Targets::classes)
      .def_property_readonly("soft_from", &Targets::soft_from)
      .def(
          "make",
          [](const Targets& targets, const py::object& labels, bool training) {
            const auto given = view_of<const std::int64_t, 3>(labels, "labels");
            const Vec3 margin = targets.margin(training), size = given.shape() - margin - margin;
            FLOODTIDE_REQUIRE(*std::ranges::min_element(size) > 0, shape_mismatch, "labels: ", Show{given.shape()},
                              " voxels (z, y, x), expected more than twice the margin ", Show{margin});
            targets.check(size);
            return read([&] {
              data::Sample sample;
              targets.make(given, training, sample);
              return sample;
            });
          },
          py::arg("labels"), py::arg("training"), "Return the targets of int64 labels; -1: not known.");
  m.def(
      "class_targets", [](std::int64_t count) { return std::shared_ptr<Targets>(data::class_targets(count)); },
      py::arg("count"));
  m.def(
      "affinity_targets",
      [](const std::vector<Vec3>& offsets, bool balance, const std::array<double, 3>& descriptors) {
        return std::shared_ptr<Targets>(data::affinity_targets({offsets, balance, descriptors}));
      },
      py::arg("offsets"), py::kw_only(), py::arg("balance"), py::arg("descriptors"));
  m.def(
      "distance_targets",
      [](double scale, const std::array<double, 3>& voxel_size) {
        return std::shared_ptr<Targets>(data::distance_targets(scale, voxel_size));
      },
      py::arg("scale"), py::kw_only(), py::arg("voxel_size"));
}

void register_images(py::module_& m) {
  using Values = std::vector<std::pair<py::int_, std::int64_t>>;
  py::class_<Labels::Part>(m, "LabelPart", "A volume of labels, and what its values mean.")
      .def(py::init(
               [](const data::VolumeReference& volume, const Values& values, std::optional<std::int64_t> others, bool refuse) {
                 data::LabelMap map{{}, others.value_or(refuse ? data::LabelMap::kRefuse : data::LabelMap::kKeep)};
                 for (const auto& [stored, label] : values) {  // values of uint64 volumes keep their bits
                   const bool large = stored > py::int_(std::numeric_limits<std::int64_t>::max());
                   map.values.emplace_back(
                       large ? static_cast<std::int64_t>(stored.cast<std::uint64_t>()) : stored.cast<std::int64_t>(), label);
                 }
                 return Labels::Part{volume, std::move(map)};
               }),
           py::arg("volume"), py::kw_only(), py::arg("values"), py::arg("others") = py::none(), py::arg("refuse") = false);
  py::class_<LabelledImage::Channel>(m, "Channel", "A volume of intensities, and how they are normalised.")
      .def(py::init<data::VolumeReference, double, double>(), py::arg("image"), py::kw_only(), py::arg("mean"), py::arg("std"));
  py::class_<LabelledImage>(m, "LabelledImage", "An image with its labels.")
      .def(py::init<std::string, std::vector<LabelledImage::Channel>, std::vector<Labels::Part>, Vec3>(), py::kw_only(),
           py::arg("name"), py::arg("channels"), py::arg("labels"), py::arg("labels_start"));
  Options<Region>(m, "Region", "A box of an image whose labels are learnt or scored.")
      .field("image", &Region::image)
      .field("box", &Region::box)
      .field("group", &Region::group);
}

void register_patch_source(py::module_& m) {
  Options<data::SampleOrderOptions>(m, "SampleOrderOptions", "How samples are dealt to walkers.")
      .field("walkers", &data::SampleOrderOptions::walkers)
      .field("batch", &data::SampleOrderOptions::batch)
      .field("seed", &data::SampleOrderOptions::seed);
  Options<PatchOptions>(m, "PatchOptions", "See floodtide.data.Patches.")
      .field("patch", &PatchOptions::patch)
      .field("whole", &PatchOptions::whole)
      .field("class_weights", &PatchOptions::class_weights)
      .field("patches", &PatchOptions::patches)
      .field("augmentation", &PatchOptions::augmentation)
      .field("order", &PatchOptions::order);
  py::class_<PatchSource>(m, "PatchSource", "What training reads its samples from.")
      .def(py::init([](std::vector<LabelledImage> images, std::vector<Region> regions, std::vector<std::string> groups,
                       std::shared_ptr<Targets> targets, const PatchOptions& options, const ProgressCallback& progress) {
             const Progress callback = progress_of(progress);
             const py::gil_scoped_release unlocked;
             return std::make_unique<PatchSource>(std::move(images), std::move(regions), std::move(groups), std::move(targets),
                                                  options, callback);
           }),
           py::arg("images"), py::arg("regions"), py::arg("groups"), py::arg("targets").none(false), py::arg("options"),
           py::arg("progress"))
      .def_property_readonly("outputs", [](const PatchSource& source) { return source.targets().outputs(); })
      .def_property_readonly("size", [](const PatchSource& source) { return source.order().size(); })
      .def_property_readonly("fixed_size", &PatchSource::fixed_size)
      .def_property_readonly("groups", &PatchSource::groups)
      .def(
          "per_walker",
          [](const PatchSource& source, std::int64_t walker, std::int64_t epoch) {
            return source.order().per_walker(walker, epoch);
          },
          py::arg("walker"), py::arg("epoch"))
      .def(
          "number",
          [](const PatchSource& source, std::int64_t walker, std::int64_t epoch, std::int64_t index) {
            return source.order().number({walker, epoch, index});
          },
          py::arg("walker"), py::arg("epoch"), py::arg("index"))
      .def(
          "load",
          [](const PatchSource& source, std::int64_t walker, std::int64_t epoch, std::int64_t index) {
            return read([&] { return source.load({walker, epoch, index}); });
          },
          py::arg("walker"), py::arg("epoch"), py::arg("index"))
      .def(
          "fixed", [](const PatchSource& source, std::int64_t number) { return read([&] { return source.fixed(number); }); },
          py::arg("number"))
      .def_property_readonly("label_counts", &PatchSource::label_counts)
      .def("fixed_place", &PatchSource::fixed_place, py::arg("number"))
      .def("training_place", &PatchSource::training_place, py::arg("epoch"), py::arg("number"));
}

}  // namespace

void register_patches(py::module_& m) {
  register_augmentation(m);
  register_targets(m);
  register_images(m);
  register_patch_source(m);
}

}  // namespace floodtide::bindings
