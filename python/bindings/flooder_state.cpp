// SPDX-License-Identifier: Apache-2.0
#include "flooder_state.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "floodtide/base/error.hpp"
#include "segment_arrays.hpp"

namespace floodtide::bindings {
namespace {

/// Return a read-only array that shows the memory of a tensor and keeps it.
template <class T>
py::array shown(const std::shared_ptr<const Tensor<T, 3>>& tensor) {
  return shared_array(tensor->data(), tensor->shape(), tensor);
}

}  // namespace

StateDict state_of(const segment::Flooder& flooder) {
  const segment::FlooderState state = flooder.state();
  py::dict out;
  out["segmentation"] = shown(flooder.shared_segmentation());
  out["probability"] = shown(flooder.shared_probability());
  out["logits"] = copy_of(state.logits.view());
  out["touched"] = rows_of({state.touched.start, state.touched.size});
  out["queue"] = rows_of(state.moves.queue);
  out["done"] = rows_of(state.moves.done);
  std::vector<Vec3> growth;
  if (state.growth) growth = {state.growth->start};
  out["growth"] = rows_of(growth);
  out["iterations"] = state.growth ? state.growth->iterations : 0;
  out["walltime_s"] = state.growth ? state.growth->walltime_s : 0.0;
  out["next_seed"] = state.next_seed;
  out["evaluations"] = state.evaluations;
  std::vector<Vec3> origins;
  std::vector<Vec3> starts;
  std::vector<double> walltimes_s;
  std::vector<Vec3> overlaps;
  for (const segment::Origin& origin : state.origins) {
    origins.push_back({origin.id, origin.iterations, origin.voxels});
    starts.push_back(origin.start);
    walltimes_s.push_back(origin.walltime_s);
  }
  for (const segment::Overlap& overlap : state.overlaps) overlaps.push_back({overlap.id, overlap.earlier_id, overlap.voxels});
  out["origins"] = rows_of(origins);
  out["origin_starts"] = rows_of(starts);
  out["origin_walltimes_s"] = walltimes_s;
  out["overlaps"] = rows_of(overlaps);
  out["counters"] = state.counters;
  out["times_s"] = state.times_s;
  return out;
}

void restore(segment::Flooder& flooder, const StateDict& values) {
  segment::FlooderState state;
  const std::vector<Vec3> touched = positions_of(values["touched"]);
  const std::vector<Vec3> growth = positions_of(values["growth"]);  // the seed; two more positions in older checkpoints
  const std::vector<Vec3> origins = positions_of(values["origins"]);
  const std::vector<Vec3> starts = positions_of(values["origin_starts"]);
  const auto walltimes_s = values["origin_walltimes_s"].cast<std::vector<double>>();
  FLOODTIDE_REQUIRE(
      touched.size() == 2 && growth.size() <= 3 && origins.size() == starts.size() && origins.size() == walltimes_s.size(),
      invalid_file, "segment: the checkpoint has tables of other sizes than expected");
  state.touched = {touched[0], touched[1]};
  const auto logits = view_of<const float, 3>(values["logits"], "logits");
  state.logits = Tensor<float, 3>(logits.shape());
  std::copy(logits.span().begin(), logits.span().end(), state.logits.data());
  state.moves.queue = positions_of(values["queue"]);
  state.moves.done = positions_of(values["done"]);
  if (!growth.empty()) {
    state.moves.start = growth[0];
    state.growth = segment::Growth{growth[0], values["iterations"].cast<std::int64_t>(), values["walltime_s"].cast<double>()};
  }
  state.next_seed = values["next_seed"].cast<std::int64_t>();
  state.evaluations = values["evaluations"].cast<std::int64_t>();
  for (std::size_t i = 0; i < origins.size(); ++i) {
    state.origins.push_back({origins[i][0], starts[i], origins[i][1], origins[i][2], walltimes_s[i]});
  }
  for (const Vec3& row : positions_of(values["overlaps"])) state.overlaps.push_back({row[0], row[1], row[2]});
  state.counters = values["counters"].cast<segment::Counters>();
  state.times_s = values["times_s"].cast<std::map<std::string, double, std::less<>>>();
  flooder.restore(std::move(state), view_of<const std::int32_t, 3>(values["segmentation"], "segmentation"),
                  view_of<const std::uint8_t, 3>(values["probability"], "probability"));
}

}  // namespace floodtide::bindings
