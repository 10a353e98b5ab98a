// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/data/affinities.hpp"
#include "floodtide/data/samples.hpp"
#include "floodtide/data/slices.hpp"
#include "volume_reference.hpp"

namespace floodtide::bindings {
namespace {

using data::AffinitySource;
using data::SampleSource;
using data::SliceSource;

using SliceSample = Typed<"tuple[int, numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.uint8]]">;
using PatchSample = Typed<
    "tuple[int, numpy.typing.NDArray[numpy.float32], numpy.typing.NDArray[numpy.float32], "
    "numpy.typing.NDArray[numpy.float32]]">;
using Boxed = Typed<"tuple[int, tuple[int, int, int], tuple[int, int, int]]">;  // volume, start, size

/// Return a sample as (group, image, classes) or (group, image, targets, weights).
template <class Read>
py::tuple read(const Read& read_sample) {
  auto sample = without_lock([&] { return read_sample(); });
  const std::int64_t group = sample.group;
  if (sample.targets.size() == 0) {
    return py::make_tuple(group, to_numpy(std::move(sample.image)), to_numpy(std::move(sample.classes)));
  }
  return py::make_tuple(group, to_numpy(std::move(sample.image)), to_numpy(std::move(sample.targets)),
                        to_numpy(std::move(sample.weights)));
}

void register_source(py::module_& m) {
  py::class_<SampleSource>(m, "SampleSource")
      .def_property_readonly("shape", [](const SampleSource& source) { return triple_of(source.format().shape); })
      .def_property_readonly("outputs", [](const SampleSource& source) { return source.format().outputs; })
      .def_property_readonly("labelled", [](const SampleSource& source) { return source.format().labelled; })
      .def_property_readonly("size", [](const SampleSource& source) { return source.order().size(); })
      .def_property_readonly("fixed_size", &SampleSource::fixed_size)
      .def_property_readonly("groups",
                             [](const SampleSource& source) {
                               std::vector<std::string> names;
                               for (std::int64_t i = 0; i < source.groups(); ++i) names.push_back(source.group_name(i));
                               return names;
                             })
      .def(
          "per_walker",
          [](const SampleSource& source, std::int64_t walker, std::int64_t epoch) {
            return source.order().per_walker(walker, epoch);
          },
          py::arg("walker"), py::arg("epoch"))
      .def(
          "number",
          [](const SampleSource& source, std::int64_t walker, std::int64_t epoch, std::int64_t index) {
            return source.order().number({walker, epoch, index});
          },
          py::arg("walker"), py::arg("epoch"), py::arg("index"))
      .def(
          "at_step",
          [](const SampleSource& source, std::int64_t walker, std::int64_t step) {
            const data::Cursor cursor = source.order().at_step(walker, step);
            return std::pair(cursor.epoch, cursor.index);
          },
          py::arg("walker"), py::arg("step"));
}

/// Define the methods `load` and `fixed` of a source class. They return a `Loaded`.
template <class Loaded, class Class>
void define_reading(Class& source_class) {
  source_class
      .def(
          "load",
          [](const SampleSource& source, std::int64_t walker, std::int64_t epoch, std::int64_t index) -> Loaded {
            return read([&] { return source.load({walker, epoch, index}); });
          },
          py::arg("walker"), py::arg("epoch"), py::arg("index"))
      .def(
          "fixed",
          [](const SampleSource& source, std::int64_t number) -> Loaded { return read([&] { return source.fixed(number); }); },
          py::arg("number"));
}

void register_slices(py::module_& m) {
  using data::SliceAugmentation;
  using data::SliceStack;
  py::class_<SliceStack>(m, "SliceStack", "A stack of slices; see floodtide.data.Slices.")
      .def(py::init([](const data::VolumeReference& images, const data::VolumeReference& masks, std::string patients) {
             return SliceStack{images, masks, std::move(patients)};
           }),
           py::kw_only(), py::arg("images"), py::arg("masks"), py::arg("patients"));
  py::class_<SliceAugmentation>(m, "SliceAugmentation", "Random changes of training slices; see floodtide.data.Slices.")
      .def(py::init([](bool flip_y, bool flip_x, double rotation_deg, double scale, double gain, double offset, double noise) {
             return SliceAugmentation{flip_y, flip_x, rotation_deg, scale, gain, offset, noise};
           }),
           py::kw_only(), py::arg("flip_y"), py::arg("flip_x"), py::arg("rotation_deg"), py::arg("scale"), py::arg("gain"),
           py::arg("offset"), py::arg("noise"));
  py::class_<SliceSource, SampleSource> slices(m, "SliceSource");
  define_reading<SliceSample>(slices);
  slices
      .def(py::init([](const std::vector<SliceStack>& stacks, const std::array<std::int64_t, 2>& size, std::int64_t classes,
                       double mean, double deviation, double outside, const std::string& part, double validation_share,
                       std::uint64_t split_seed, const SliceAugmentation& augmentation, std::int64_t walkers,
                       std::int64_t batch, std::uint64_t seed) {
             const data::SliceOptions options{
                 .size = size,
                 .classes = classes,
                 .mean = mean,
                 .std = deviation,
                 .outside = outside,
                 .part = named<data::SlicePart>(part),
                 .validation_share = validation_share,
                 .split_seed = split_seed,
                 .augmentation = augmentation,
                 .order = {walkers, batch, seed},
             };
             const py::gil_scoped_release unlocked;
             return std::make_unique<SliceSource>(stacks, options);
           }),
           py::arg("stacks"), py::kw_only(), py::arg("size"), py::arg("classes"), py::arg("mean"), py::arg("std"),
           py::arg("outside"), py::arg("part"), py::arg("validation_share"), py::arg("split_seed"), py::arg("augmentation"),
           py::arg("walkers"), py::arg("batch"), py::arg("seed"))
      .def(
          "check_masks",
          [](const SliceSource& source, std::int64_t begin, std::int64_t end, const ProgressCallback& progress) {
            const Progress callback = progress_of(progress);
            const py::gil_scoped_release unlocked;
            source.check_masks(begin, end, callback);
          },
          py::arg("begin"), py::arg("end"), py::arg("progress"))
      .def(
          "place",
          [](const SliceSource& source, std::int64_t number) {
            const SliceSource::Place place = source.place(number);
            return std::pair(place.stack, place.index);
          },
          py::arg("number"));
  m.def("require_different_patients", &data::require_different_patients, py::arg("training"), py::arg("validation"));
}

void register_affinities(py::module_& m) {
  const auto boxed = [](const AffinitySource::Place& place) -> Boxed {
    return py::make_tuple(place.volume, triple_of(place.box.start), triple_of(place.box.size));
  };
  py::class_<AffinitySource, SampleSource> affinities(m, "AffinitySource");
  define_reading<PatchSample>(affinities);
  affinities
      .def(
          py::init([](const std::vector<data::SourceOptions>& volumes, const std::vector<Vec3>& offsets, const Vec3& patch_size,
                      bool zero_is_boundary, bool balance, std::vector<int> permutable_axes, std::vector<int> reflectable_axes,
                      std::optional<std::int64_t> patches, std::int64_t walkers, std::int64_t batch, std::uint64_t seed) {
            const data::AffinityOptions options{
                .offsets = offsets,
                .patch_size = patch_size,
                .zero_is_boundary = zero_is_boundary,
                .balance = balance,
                .permutable_axes = std::move(permutable_axes),
                .reflectable_axes = std::move(reflectable_axes),
                .patches = patches,
                .order = {walkers, batch, seed},
            };
            const py::gil_scoped_release unlocked;
            return std::make_unique<AffinitySource>(volumes, options);
          }),
          py::arg("volumes"), py::kw_only(), py::arg("offsets"), py::arg("patch_size"), py::arg("zero_is_boundary"),
          py::arg("balance"), py::arg("permutable_axes"), py::arg("reflectable_axes"), py::arg("patches"), py::arg("walkers"),
          py::arg("batch"), py::arg("seed"))
      .def(
          "fixed_place",
          [boxed](const AffinitySource& source, std::int64_t number) { return boxed(source.fixed_place(number)); },
          py::arg("number"))
      .def(
          "training_place",
          [boxed](const AffinitySource& source, std::int64_t epoch, std::int64_t number) {
            return boxed(source.training_place(epoch, number));
          },
          py::arg("epoch"), py::arg("number"));
}

}  // namespace

void register_samples(py::module_& m) {
  register_source(m);
  register_slices(m);
  register_affinities(m);
}

}  // namespace floodtide::bindings
