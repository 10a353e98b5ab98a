// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <optional>
#include <vector>

#include "arrays.hpp"
#include "bindings.hpp"
#include "floodtide/segment/decision_points.hpp"
#include "floodtide/segment/resegment.hpp"

namespace floodtide::bindings {
namespace {

using segment::PairScores;
using segment::Regrown;
using segment::ResegmentOptions;
using PointRows = Typed<"list[tuple[int, int, tuple[int, int, int], float]]">;

py::object record_of(const std::optional<Regrown>& regrown) {
  if (!regrown) return py::none();
  py::dict row;
  row["start"] = triple_of(regrown->start);
  row["attempts"] = regrown->attempts;
  row["recovered"] = regrown->recovered;
  row["voxels"] = regrown->voxels;
  row["deleted"] = regrown->deleted;
  row["share_of_a"] = regrown->share_of_a;
  row["share_of_b"] = regrown->share_of_b;
  row["max_distance"] = regrown->max_distance;
  return row;
}

Record record_of(const PairScores& scores) {
  py::dict row;
  row["voxels_a"] = scores.voxels_a;
  row["voxels_b"] = scores.voxels_b;
  row["max_distance_a"] = scores.max_distance_a;
  row["max_distance_b"] = scores.max_distance_b;
  row["from_a"] = record_of(scores.from_a);
  row["from_b"] = record_of(scores.from_b);
  row["iou"] = scores.iou;
  row["network_calls"] = scores.network_calls;
  return row;
}

}  // namespace

void register_agglomerate(py::module_& m) {
  auto s = m.def_submodule("agglomerate", "Which segments belong together");
  s.def(
      "decision_points",
      [](const UInt64Array& labels, const std::array<double, 3>& voxel_size, double max_distance, const Vec3& start,
         const Vec3& size) {
        const auto view = view_of<const std::uint64_t, 3>(labels, "labels");
        const auto points =
            without_lock([&] { return segment::decision_points(view, voxel_size, max_distance, {start, size}); });
        py::list rows;
        for (const auto& point : points) {
          rows.append(py::make_tuple(point.a, point.b, triple_of(point.position), point.distance));
        }
        return PointRows(rows);
      },
      py::arg("labels"), py::arg("voxel_size"), py::arg("max_distance"), py::arg("start"), py::arg("size"),
      "Return (a, b, position, distance) for each pair of segments that come closest to each other in a box.");
  s.def(
      "resegment_pair",
      [](segment::Flooder& flooder, const UInt64Array& labels, std::uint64_t a, std::uint64_t b, const Vec3& point,
         const Vec3& analysis_radius, const Vec3& exclusion_radius, const std::optional<Vec3>& point_exclusion,
         std::int64_t attempts, double recovery, const std::array<double, 3>& voxel_size, bool terminate_early) {
        const auto view = view_of<const std::uint64_t, 3>(labels, "labels");
        const ResegmentOptions options{analysis_radius, exclusion_radius, point_exclusion, attempts,
                                       recovery,        voxel_size,       terminate_early};
        return record_of(without_lock([&] { return segment::resegment_pair(flooder, view, a, b, point, options); }));
      },
      py::arg("flooder"), py::arg("labels"), py::arg("a"), py::arg("b"), py::arg("point"), py::arg("analysis_radius"),
      py::arg("exclusion_radius"), py::arg("point_exclusion"), py::arg("attempts"), py::arg("recovery"), py::arg("voxel_size"),
      py::arg("terminate_early"), "Return the scores of two segments that are erased and flooded again.");
}

}  // namespace floodtide::bindings
