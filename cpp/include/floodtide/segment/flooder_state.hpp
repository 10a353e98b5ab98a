// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "floodtide/flood/face_max.hpp"
#include "floodtide/segment/result.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// An object while it grows.
struct Growth {
  Vec3 start;                   ///< the seed
  std::int64_t iterations = 0;  ///< evaluations of the network
  double walltime_s = 0.0;
};

/// The segments and counters that a Flooder has so far. Its arrays are not here.
struct Findings {
  std::int64_t evaluations = 0;  ///< evaluations of the network
  std::vector<Origin> origins;
  std::vector<Overlap> overlaps;
  Counters counters;
  std::map<std::string, double, std::less<>> times_s;  ///< sums of the times among the counters
};

/// What a Flooder has found so far, without the two arrays of the image's size (segmentation and probability).
struct FlooderState : Findings {
  std::optional<Growth> growth;  ///< no value: no object is under way
  flood::FaceMaxMoves::State moves;
  Box touched;                 ///< the part of the canvas that the last object has reached
  Tensor<float, 3> logits;     ///< the canvas in this box
  std::int64_t next_seed = 0;  ///< index of the seed of the object under way, else of the next seed
};

}  // namespace floodtide::segment
