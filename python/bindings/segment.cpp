// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "arrays.hpp"
#include "bindings.hpp"
#include "flooder_state.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/segment/components.hpp"
#include "floodtide/segment/consensus.hpp"
#include "floodtide/segment/flooder.hpp"
#include "floodtide/segment/grow.hpp"
#include "floodtide/segment/reconcile.hpp"
#include "floodtide/segment/result.hpp"
#include "floodtide/segment/seeds.hpp"
#include "registry.hpp"
#include "segment_arrays.hpp"
#include "volume_reference.hpp"

namespace floodtide::bindings {
namespace {

using segment::Flooder;
using segment::FlooderOptions;
using segment::Result;
using PredictorObject = Typed<
    "floodtide._core.Ffn | collections.abc.Callable[[numpy.typing.NDArray[numpy.float32], "
    "numpy.typing.NDArray[numpy.float32]], numpy.typing.NDArray[numpy.float32]]">;
using CheckpointCallback = Typed<"collections.abc.Callable[[], object] | None">;
using MoveCallback =
    Typed<"collections.abc.Callable[[int, tuple[int, int, int], numpy.typing.NDArray[numpy.float32], int], object] | None">;

/// Return a Predictor for an Ffn, which computes by `forward`, or for a Python function predict(image, logits) of float32
/// arrays that returns updated logits.
segment::Predictor predictor_of(const py::object& model, const std::string& forward) {
  auto owner = std::make_shared<py::object>(model);
  if (py::isinstance<nn::Ffn>(model)) {
    return
        [owner = std::move(owner), predict = segment::network_predictor(model.cast<nn::Ffn&>(), named<nn::Forward>(forward))](
            View<const float, 3> image, View<const float, 3> logits, View<float, 3> out_logits) {
          predict(image, logits, out_logits);
        };
  }
  return [owner = std::move(owner)](View<const float, 3> image, View<const float, 3> logits, View<float, 3> out_logits) {
    const py::gil_scoped_acquire lock;
    const py::object answer = (*owner)(copy_of(image), copy_of(logits));
    const auto values = view_of<const float, 3>(answer, "the predictor's answer");
    FLOODTIDE_REQUIRE(values.shape() == out_logits.shape(), shape_mismatch, "segment: the predictor's answer has shape ",
                      Show{values.shape()}, ", expected ", Show{out_logits.shape()});
    std::copy(values.span().begin(), values.span().end(), out_logits.data());
  };
}

segment::OnMove on_move_of(const py::object& callback) {
  return [callback = std::make_shared<py::object>(callback)](const segment::Move& move) {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!callback->is_none()) (*callback)(move.index, triple_of(move.position), copy_of(move.logits), deleted_voxels(move));
  };
}

std::function<void()> checkpoint_of(const py::object& callback) {
  if (callback.is_none()) return {};
  return [callback = std::make_shared<py::object>(callback)] {
    const py::gil_scoped_acquire lock;
    (*callback)();
  };
}

FlooderOptions options_of(const py::kwargs& values) {
  FlooderOptions options;
  options.fov = values["fov"].cast<Vec3>();
  options.deltas = values["deltas"].cast<Vec3>();
  options.init_activation = values["init_activation"].cast<double>();
  options.pad_value = values["pad_value"].cast<double>();
  options.move_threshold = values["move_threshold"].cast<double>();
  options.segment_threshold = values["segment_threshold"].cast<double>();
  options.disco_seed_threshold = values["disco_seed_threshold"].cast<double>();
  options.min_segment_size = values["min_segment_size"].cast<std::int64_t>();
  options.min_boundary_dist = values["min_boundary_dist"].cast<Vec3>();
  options.halo_low = values["halo_low"].cast<Vec3>();
  options.halo_high = values["halo_high"].cast<Vec3>();
  options.probability = values["probability"].cast<bool>();
  return options;
}

Tensor<float, 3> normalised_of(const py::object& raw, double mean, double std) {
  const auto view = view_of<const float, 3>(raw, "image");
  const py::gil_scoped_release unlock;
  return segment::normalised(view, mean, std);
}

/// Return an array that shows the memory of a tensor, for as long as the tensor exists.
template <class T>
py::array_t<T> shown(const Tensor<T, 3>& tensor) {
  return py::array_t<T>(std::vector<py::ssize_t>(tensor.shape().begin(), tensor.shape().end()), tensor.data(), py::none());
}

/// Return the labels in the smallest unsigned type that can hold them.
AnyArray labels_of_result(const Result& result) {
  const bool one = result.largest_id <= std::numeric_limits<std::uint8_t>::max();
  const bool two = result.largest_id <= std::numeric_limits<std::uint16_t>::max();
  return AnyArray(shown(result.labels).attr("astype")(one ? "uint8" : two ? "uint16" : "uint32"));
}

}  // namespace

void register_segment(py::module_& m) {
  auto s = m.def_submodule("segment", "Segmentation of objects in image volumes by flood filling");
  s.def("seed_policies", [] {
    const auto rows = segment::seed_policy_rows();
    Records records = rows_with_parameters(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      records[py::int_(i)]["published"] = rows[i].published;
    }
    return records;
  });
  s.def(
      "closed_bits",
      [] {
        return std::map<std::string, int>{{"moves", segment::kClosedToMoves},
                                          {"seeds", segment::kClosedToSeeds},
                                          {"segment", segment::kClosedBySegment},
                                          {"shift", segment::kClosedByShift}};
      },
      "Return the bits that say why a voxel is closed, by name.");
  s.def("check_output", &segment::check_output, py::arg("path"), py::arg("dataset"), py::call_guard<py::gil_scoped_release>(),
        "Raise the error that `write` would raise for this output, before there is a result.");
  s.def(
      "placement", [](const data::VolumeReference& volume) { return segment::placement(*volume.open()); }, py::arg("volume"),
      py::call_guard<py::gil_scoped_release>(),
      "Return the attribute box_start (z, y, x) of a dataset, or None if there is none.");

  s.def(
      "read_seeds", [](const std::string& path) { return rows_of(without_lock([&] { return segment::read_seeds(path); })); },
      py::arg("path"), "Return the seeds of a stored segmentation, int64 (n, 3) of z, y, x, in the order of ids.");
  s.def(
      "read_origins",
      [](const std::string& path) {
        const auto origins = without_lock([&] { return segment::read_origins(path); });
        Tensor<std::int64_t, 2> out({static_cast<std::int64_t>(origins.size()), 5});
        for (std::size_t i = 0; i < origins.size(); ++i) {
          const segment::Origin& origin = origins[i];
          std::int64_t* row = out.data() + 5 * i;
          row[0] = origin.id;
          std::copy(origin.start.begin(), origin.start.end(), row + 1);
          row[4] = origin.iterations;
        }
        return to_numpy(std::move(out));
      },
      py::arg("path"), "Return the origins of a stored segmentation, int64 rows of id, z, y, x and network calls.");
  s.def(
      "find_seeds",
      [](const FloatArray& image, double mean, double std, const std::string& policy, const ParameterValues& values,
         const Vec3& margin, const ProgressCallback& progress, const std::optional<UInt8Array>& closed) {
        const Tensor<float, 3> normal = normalised_of(image, mean, std);
        const Progress report = progress_of(progress);
        View<const std::uint8_t, 3> mask;
        if (closed) mask = view_of<const std::uint8_t, 3>(*closed, "closed");
        return rows_of(without_lock([&] { return segment::find_seeds(policy, values, normal.view(), mask, margin, report); }));
      },
      py::arg("image"), py::arg("mean"), py::arg("std"), py::arg("policy"), py::arg("values"), py::arg("margin"),
      py::arg("progress"), py::arg("closed") = std::nullopt,
      "Return the seeds of a policy, int64 (n, 3) of z, y, x, in the order in which they are tried. `closed` has "
      "`closed_bits`.");

  s.def(
      "connected_components",
      [](const UInt8Array& mask, std::int64_t min_size) {
        const auto view = view_of<const std::uint8_t, 3>(mask, "mask");
        return to_numpy(without_lock([&] { return segment::connected_components(view, min_size); }));
      },
      py::arg("mask"), py::arg("min_size"),
      "Return the face-connected components of a uint8 mask with at least min_size voxels, int32 ids from 1.");

  s.def(
      "grow",
      [](const Int32Array& labels, std::int64_t steps) {
        const auto given = view_of<const std::int32_t, 3>(labels, "labels");
        Tensor<std::int32_t, 3> grown(given.shape());
        std::ranges::copy(given.span(), grown.data());
        without_lock([&] { segment::grow(grown, steps); });
        return to_numpy(std::move(grown));
      },
      py::arg("labels"), py::arg("steps"), "Return int32 labels whose voxels of 0 have the id of a segment near them.");

  s.def(
      "split_consensus",
      [](const Int32Array& a, const Int32Array& b, std::int64_t min_size) {
        const auto first = view_of<const std::int32_t, 3>(a, "a");
        const auto second = view_of<const std::int32_t, 3>(b, "b");
        return to_numpy(without_lock([&] { return segment::split_consensus(first, second, min_size); }));
      },
      py::arg("a"), py::arg("b"), py::arg("min_size"), "Return the oversegmentation consensus of two int32 segmentations.");
  s.def(
      "compare_overlap",
      [](const UInt64Array& counts, std::int64_t min_voxels, double min_share, std::int64_t inside_voxels) {
        const std::vector<evaluate::ContingencyTable::Entry> entries = entries_of(counts);
        const segment::Seam seam = segment::compare_overlap(entries, {min_voxels, min_share, inside_voxels});
        Tensor<std::uint64_t, 2> same({static_cast<std::int64_t>(seam.same.size()), 2});
        for (std::size_t i = 0; i < seam.same.size(); ++i) {
          same.data()[2 * i] = seam.same[i].first;
          same.data()[2 * i + 1] = seam.same[i].second;
        }
        return std::pair(to_numpy(std::move(same)), seam.split);
      },
      py::arg("counts"), py::arg("min_voxels"), py::arg("min_share"), py::arg("inside_voxels"),
      "Return the pairs of segments (uint64, 2 columns) that agree in an overlap, and how many segments agree with none.");
  s.def(
      "connected",
      [](std::int64_t count, const Int64Array& pairs) {
        const auto rows = rows_with<std::int64_t>(2, pairs, "pairs");
        std::vector<std::pair<std::int64_t, std::int64_t>> list;
        for (std::int64_t i = 0; i < rows.shape(0); ++i) list.emplace_back(rows(i, 0), rows(i, 1));
        const std::vector<std::int64_t> roots = without_lock([&] { return segment::connected(count, list); });
        Tensor<std::int64_t, 1> out({count});
        std::copy(roots.begin(), roots.end(), out.data());
        return to_numpy(std::move(out));
      },
      py::arg("count"), py::arg("pairs"), "Return for each item the smallest item that the pairs (2 columns) connect it with.");

  py::class_<Result>(s, "Result")
      .def("labels", &labels_of_result)
      .def(
          "probability", [](const Result& result) { return UInt8Array(shown(result.probability).attr("copy")()); },
          "Return the quantised probabilities, uint8 (z, y, x); without voxels if they were not kept.")
      .def(
          "grow", [](Result& result, std::int64_t steps) { segment::grow(result, steps); }, py::arg("steps"),
          py::call_guard<py::gil_scoped_release>(), "Give unsegmented voxels the id of a segment near them.")
      .def_readonly("start", &Result::start)
      .def_readonly("volume_shape", &Result::volume_shape)
      .def_readonly("counters", &Result::counters)
      .def(
          "origins", [](const Result& result)->Typed<"list[tuple[int, tuple[int, int, int], int, int, float]]"> {
            py::list rows;
            for (const auto& o : result.origins) {
              rows.append(py::make_tuple(o.id, py::make_tuple(o.start[0], o.start[1], o.start[2]), o.iterations, o.voxels,
                                         o.walltime_s));
            }
            return rows;
          })
      .def(
          "overlaps", [](const Result& result)->Typed<"list[tuple[int, int, int]]"> {
            py::list rows;
            for (const auto& o : result.overlaps) rows.append(py::make_tuple(o.id, o.earlier_id, o.voxels));
            return rows;
          })
      .def(
          "write",
          [](const Result& result, const std::string& path, const std::string& dataset,
             const std::map<std::string, std::string>& notes) {
            const py::gil_scoped_release unlock;
            segment::write(result, path, dataset, notes);
          },
          py::arg("path"), py::arg("dataset"), py::arg("notes"));

  s.def("consensus", &segment::consensus, py::arg("a"), py::arg("b"), py::arg("min_size"),
        py::call_guard<py::gil_scoped_release>(), "Return the split consensus of two results of one box.");

  py::class_<Flooder>(s, "Flooder")
      .def(py::init([](const FloatArray& image, double mean, double std, const PredictorObject& predictor,
                       const std::string& forward, const py::KWArgs<py::object>& options) {
             return std::make_unique<Flooder>(normalised_of(image, mean, std), options_of(options),
                                              predictor_of(predictor, forward));
           }),
           py::arg("image"), py::arg("mean"), py::arg("std"), py::arg("predictor"), py::arg("forward"))
      .def(
          "set_initial",
          [](Flooder& flooder, const Int64Array& labels) {
            const auto view = view_of<const std::int64_t, 3>(labels, "initial segmentation");
            const py::gil_scoped_release unlock;
            flooder.set_initial(view);
          },
          py::arg("labels"))
      .def(
          "set_mask",
          [](Flooder& flooder, const UInt8Array& mask) {
            const auto view = view_of<const std::uint8_t, 3>(mask, "mask");
            Tensor<std::uint8_t, 3> copy(view.shape());
            std::copy(view.span().begin(), view.span().end(), copy.data());
            flooder.set_mask(std::move(copy));
          },
          py::arg("mask"))
      .def(
          "segment_at",
          [](Flooder& flooder, const Vec3& start, const MoveCallback& on_move) {
            const segment::OnMove callback = on_move_of(on_move);
            const py::gil_scoped_release unlock;
            return flooder.segment_at(start, callback);
          },
          py::arg("start"), py::arg("on_move"))
      .def(
          "segment_all",
          [](Flooder& flooder, const Int64Array& positions, const ProgressCallback& progress,
             const CheckpointCallback& checkpoint) {
            const auto rows = rows_with<std::int64_t>(3, positions, "seeds (z, y, x)");
            std::vector<Vec3> seeds;
            for (std::int64_t i = 0; i < rows.shape(0); ++i) seeds.push_back({rows(i, 0), rows(i, 1), rows(i, 2)});
            const Progress report = progress_of(progress);
            const std::function<void()> save = checkpoint_of(checkpoint);
            const py::gil_scoped_release unlock;
            flooder.segment_all(seeds, report, save);
          },
          py::arg("seeds"), py::arg("progress"), py::arg("checkpoint") = py::none(),
          "Flood an object from each seed. `checkpoint` is called after each evaluation of the network, and may call `state`.")
      .def("state", &state_of,
           "Return what was found so far, for `restore`. Arrays of the image's size are not copied: they are read-only, and "
           "show "
           "what further flooding finds.")
      .def("restore", &restore, py::arg("state"))
      .def("logits", [](const Flooder& flooder) { return copy_of(flooder.logits()); })
      .def("counters", &Flooder::counters)
      .def_property_readonly("shape", [](const Flooder& flooder) { return triple_of(flooder.image().shape()); })
      .def_property_readonly("evaluations", &Flooder::evaluations)
      .def("take_result", &Flooder::take_result, py::arg("start"), py::arg("volume_shape"));
}

}  // namespace floodtide::bindings
