// SPDX-License-Identifier: Apache-2.0
#include "floodtide/evaluate/contingency.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/evaluate/dice.hpp"
#include "floodtide/evaluate/voxel_metrics.hpp"
#include "segment_arrays.hpp"

namespace floodtide::bindings {
namespace {

using evaluate::ContingencyTable;
using evaluate::DiceCounts;
using evaluate::VoxelCounts;

constexpr std::int64_t kChunk = 1 << 16;  // voxels converted at a time, so that both buffers stay in the L2 cache

using Reader = void (*)(const void* data, std::int64_t begin, std::int64_t end, std::uint64_t* out);

/// Read the ids of the voxels [begin, end). Negative numbers become 0, which means no object.
template <class T>
void read_ids(const void* data, std::int64_t begin, std::int64_t end, std::uint64_t* out) {
  const T* values = static_cast<const T*>(data);
  for (std::int64_t i = begin; i < end; ++i) {
    T value = values[i];
    if constexpr (std::is_signed_v<T>) value = std::max(value, T{0});
    out[i - begin] = static_cast<std::uint64_t>(value);
  }
}

template <class... T>
Reader find_reader(const py::array& array) {
  Reader reader = nullptr;
  ((py::isinstance<py::array_t<T>>(array) ? (reader = &read_ids<T>, true) : false) || ...);
  return reader;
}

/// C-contiguous labelling of any integer type. It is read in chunks, without a copy of the whole array.
struct Labels {
  py::array array;
  const void* data;
  Reader reader;
};

Labels labels_of(const py::object& object, const char* what) {
  FLOODTIDE_REQUIRE(py::isinstance<py::array>(object), invalid_argument, what, ": expected an integer array, got ",
                    py::type::of(object).attr("__name__").cast<std::string>());
  const auto array = py::reinterpret_borrow<py::array>(object);
  const Reader reader = find_reader<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int8_t, std::int16_t,
                                    std::int32_t, std::int64_t>(array);
  FLOODTIDE_REQUIRE(reader != nullptr, invalid_argument, what, ": expected an integer array, got dtype ",
                    py::str(array.dtype()).cast<std::string>(), ": write the ids as uint32, for example");
  require_plain(array, what);
  return {array, array.data(), reader};
}

/// Count the ids of two arrays of one shape, piece by piece.
void add_labels(ContingencyTable& table, const AnyArray& segmentation, const AnyArray& truth) {
  const Labels a = labels_of(segmentation, "segmentation");
  const Labels b = labels_of(truth, "truth");
  const auto same_shape = [&] {
    return a.array.ndim() == b.array.ndim() && std::equal(a.array.shape(), a.array.shape() + a.array.ndim(), b.array.shape());
  };
  FLOODTIDE_REQUIRE(same_shape(), shape_mismatch, "evaluate: segmentation has shape ",
                    py::str(py::object(a.array.attr("shape"))).cast<std::string>(), ", truth has shape ",
                    py::str(py::object(b.array.attr("shape"))).cast<std::string>());
  const std::int64_t voxels = a.array.size();
  const py::gil_scoped_release unlock;
  std::vector<std::uint64_t> segments(static_cast<std::size_t>(kChunk));
  std::vector<std::uint64_t> objects(static_cast<std::size_t>(kChunk));
  for (std::int64_t begin = 0; begin < voxels; begin += kChunk) {
    const std::int64_t end = std::min(begin + kChunk, voxels);
    a.reader(a.data, begin, end, segments.data());
    b.reader(b.data, begin, end, objects.data());
    const auto count = static_cast<std::size_t>(end - begin);
    table.add(std::span(segments).first(count), std::span(objects).first(count));
  }
}

/// Return the table as an array with rows (segment, object, count).
py::array_t<std::uint64_t> table_rows(const ContingencyTable& table) {
  const auto entries = table.entries();
  Tensor<std::uint64_t, 2> rows({static_cast<std::int64_t>(entries.size()), 3});
  std::uint64_t* out = rows.data();
  for (const auto& entry : entries) {
    *out++ = entry.segment;
    *out++ = entry.object;
    *out++ = static_cast<std::uint64_t>(entry.count);
  }
  return to_numpy(std::move(rows));
}

void add_rows(ContingencyTable& table, const UInt64Array& rows) { table.add(entries_of(rows)); }

void put_scores(py::dict& out, const std::string& prefix, const evaluate::PartitionScores& scores) {
  const auto put = [&](const char* name, const auto& value) { out[py::str(prefix + name)] = value; };
  put("adapted_rand_error", scores.adapted_rand_error);
  put("rand_precision", scores.rand_precision);
  put("rand_recall", scores.rand_recall);
  put("voi_split", scores.voi_split);
  put("voi_merge", scores.voi_merge);
  put("cremi", scores.cremi);
  put("voxels", scores.voxels);
  put("segments", scores.segments);
  put("objects", scores.objects);
}

Typed<"dict[str, float]"> scores_of(const ContingencyTable& table) {
  const auto scores = table.scores();
  py::dict out;
  put_scores(out, "", scores.segmented);
  out["coverage"] = scores.coverage;
  put_scores(out, "all_", scores.all);
  return out;
}

py::dict dict_of(const evaluate::BinaryCounts& counts) {
  const auto scores = counts.scores();
  py::dict out;
  out["true_positive"] = counts.true_positive;
  out["false_positive"] = counts.false_positive;
  out["true_negative"] = counts.true_negative;
  out["false_negative"] = counts.false_negative;
  out["accuracy"] = scores.accuracy;
  out["precision"] = scores.precision;
  out["recall"] = scores.recall;
  out["f1"] = scores.f1;
  out["mcc"] = scores.mcc;
  return out;
}

/// Return all counts as an int64 array.
template <class Counts>
Int64Array values_of(const Counts& counts) {
  Tensor<std::int64_t, 1> values({static_cast<std::int64_t>(counts.values().size())});
  std::copy(counts.values().begin(), counts.values().end(), values.data());
  return to_numpy(std::move(values));
}

using DiceState = Typed<"tuple[int, int, numpy.typing.NDArray[numpy.int64]]">;

void register_dice(py::module_& m) {
  py::class_<DiceCounts>(m, "DiceCounts",
                         "Integer counts of predicted and true classes for each group (patient). Sums over ranks are exact.")
      .def(py::init<std::int64_t, std::int64_t>(), py::arg("groups"), py::arg("classes"))
      .def(py::pickle([](const DiceCounts& counts)
                          -> DiceState { return py::make_tuple(counts.groups(), counts.classes(), values_of(counts)); },
                      [](const DiceState& state) {
                        DiceCounts counts(state[py::int_(0)].cast<std::int64_t>(), state[py::int_(1)].cast<std::int64_t>());
                        counts.assign(view_of<const std::int64_t, 1>(state[py::int_(2)], "values").span());
                        return counts;
                      }))
      .def(
          "add",
          [](DiceCounts& counts, std::int64_t group, const UInt8Array& predicted, const UInt8Array& truth) {
            const auto p = view_of<const std::uint8_t, 3>(predicted, "predicted classes");
            const auto t = view_of<const std::uint8_t, 3>(truth, "true classes");
            const py::gil_scoped_release unlock;
            counts.add(group, p, t);
          },
          py::arg("group"), py::arg("predicted"), py::arg("truth"), "Count one image (z, y, x) of a group.")
      .def("values", &values_of<DiceCounts>, "Return all counts as one int64 array, for a sum over ranks.")
      .def(
          "assign",
          [](DiceCounts& counts, const Int64Array& values) {
            counts.assign(view_of<const std::int64_t, 1>(values, "values").span());
          },
          py::arg("values"), "Replace all counts by an array in the form of values().")
      .def("confusion", &DiceCounts::confusion, py::arg("truth"), py::arg("predicted"),
           "Return the number of pixels of all groups with this true and this predicted class.")
      .def("group", &DiceCounts::group, py::arg("group"), py::arg("of_class"), "Return the score of one group, or None.")
      .def("pooled", &DiceCounts::pooled, py::arg("of_class"), "Return the score over the pixels of all groups, or None.")
      .def("mean_over_groups", &DiceCounts::mean_over_groups, py::arg("of_class"),
           "Return the mean over the groups that have a score, or None.");
  m.def(
      "most_likely_classes",
      [](const FloatArray& scores) {
        const auto view = view_of<const float, 4>(scores, "scores");
        return to_numpy(without_lock([&] {
          Tensor<std::uint8_t, 3> classes({view.shape(0), view.shape(1), view.shape(2)});
          evaluate::most_likely_classes(view, classes.view());
          return classes;
        }));
      },
      py::arg("scores"), "Return the class with the largest score for each pixel, uint8 (z, y, x), from (z, y, x, classes).");
}

}  // namespace

void register_evaluate(py::module_& m) {
  auto e = m.def_submodule("evaluate", "Scores of segmentations and of voxelwise predictions");
  register_dice(e);
  py::class_<ContingencyTable>(
      e, "ContingencyTable",
      "Numbers of voxels for each (segment, object). Counts of blocks add up, so volumes can be read block by block.")
      .def(py::init<>())
      .def("add", &add_labels, py::arg("segmentation"), py::arg("truth"),
           "Count the voxels of two integer arrays of one shape; values <= 0 mean no object.")
      .def(py::pickle([](const ContingencyTable& table) -> UInt64Array { return table_rows(table); },
                      [](const UInt64Array& rows) {
                        ContingencyTable table;
                        add_rows(table, rows);
                        return table;
                      }))
      .def("add_rows", &add_rows, py::arg("rows"), "Add the rows() of another table.")
      .def("rows", &table_rows, "Return a uint64 array (n, 3): segment, object, count; sorted by segment, then object.")
      .def("scores", &scores_of, "Return {name: score}; see floodtide.evaluate.scores.")
      .def(
          "matching", [](const ContingencyTable& table)->Typed<"dict[str, int]"> {
            const evaluate::Matching found = table.matching();
            py::dict out;
            out["voxels"] = found.voxels;
            out["same_voxels"] = found.same_voxels;
            out["segments"] = found.segments;
            out["objects"] = found.objects;
            out["identical"] = found.identical;
            return out;
          },
          "Return {name: number}; see floodtide.evaluate.matching.");
  py::class_<VoxelCounts>(e, "VoxelCounts",
                          "Integer counts that compare predicted logits with soft labels. Sums over ranks are exact.")
      .def(py::init<>())
      .def(
          "add",
          [](VoxelCounts& counts, const FloatArray& logits, const FloatArray& labels) {
            const auto x = view_of<const float, 3>(logits, "logits");
            const auto y = view_of<const float, 3>(labels, "labels");
            const py::gil_scoped_release unlock;
            return counts.add(x, y);
          },
          py::arg("logits"), py::arg("labels"), "Count one field of view and return its sum of cross-entropy (nats).")
      .def(
          "add_probabilities",
          [](VoxelCounts& counts, const FloatArray& probabilities, const FloatArray& targets, const FloatArray& weights,
             std::int64_t channel) {
            const auto p = view_of<const float, 4>(probabilities, "probabilities");
            const auto y = view_of<const float, 4>(targets, "targets");
            const auto w = view_of<const float, 4>(weights, "weights");
            const py::gil_scoped_release unlock;
            return counts.add_probabilities(p, y, w, channel);
          },
          py::arg("probabilities"), py::arg("targets"), py::arg("weights"), py::arg("channel"),
          "Count the voxels of one channel with a weight above 0, and return their sum of cross-entropy (nats).")
      .def("values", &values_of<VoxelCounts>)
      .def(
          "assign",
          [](VoxelCounts& counts, const Int64Array& values) {
            counts.assign(view_of<const std::int64_t, 1>(values, "values").span());
          },
          py::arg("values"))
      .def("voxels", &VoxelCounts::voxels)
      .def("object_voxels", &VoxelCounts::object_voxels)
      .def("average_precision", &VoxelCounts::average_precision)
      .def(
          "scores", [](const VoxelCounts& counts)->Typed<"dict[float, dict[str, dict[str, float]]]"> {
            py::dict out;
            for (std::size_t i = 0; i < VoxelCounts::kThresholds.size(); ++i) {
              py::dict row;
              row["predicted"] = dict_of(counts.counts(i));
              row["everything_is_object"] = dict_of(counts.everything_is_object());
              row["best_constant"] = dict_of(counts.best_constant(i));
              out[py::float_(VoxelCounts::kThresholds[i])] = row;
            }
            return out;
          });
}

}  // namespace floodtide::bindings
