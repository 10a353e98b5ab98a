// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "floodtide/base/progress.hpp"
#include "floodtide/flood/canvas.hpp"
#include "floodtide/flood/face_max.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/segment/closed.hpp"
#include "floodtide/segment/flooder_state.hpp"
#include "floodtide/segment/result.hpp"
#include "floodtide/tensor/box.hpp"
#include "floodtide/tensor/view.hpp"

namespace floodtide::segment {

/// Options of flooding: thresholds are probabilities, sizes are voxels. Names are those of google/ffn's InferenceOptions.
struct FlooderOptions {
  Vec3 fov{33, 33, 33};  ///< odd
  Vec3 deltas{8, 8, 8};  ///< at most half the field of view
  double init_activation = 0.95;
  double pad_value = 0.05;
  double move_threshold = 0.9;
  double segment_threshold = 0.6;
  double disco_seed_threshold = 0.0;  ///< negative: off
  std::int64_t min_segment_size = 1000;
  Vec3 min_boundary_dist{1, 1, 1};
  /// Voxels at the low and high faces of the image that only give context. No segment has them, and the result is without them.
  Vec3 halo_low{}, halo_high{};
  bool probability = false;  ///< keep the probabilities of voxels of segments, 1 byte per voxel
};

/// Network that computes updated logits of one field of view from the normalised image and the current logits, all [z, y, x].
using Predictor = std::function<void(View<const float, 3> image, View<const float, 3> logits, View<float, 3> out_logits)>;

/// Return a Predictor that evaluates a network, which must outlive it. Several flooders may use one network at the same time.
///
/// The objects of a flooder need the same network. If its parameters change after this call, the Predictor throws
/// Error(in_use).
/// @param forward as for Ffn::forward
[[nodiscard]] Predictor network_predictor(nn::Ffn& network, std::optional<nn::Forward> forward = {});

/// An evaluation of the network while an object grows. Views are [z, y, x], valid during the call.
struct Move {
  std::int64_t index;           ///< number of evaluations before this one
  Vec3 position;                ///< centre of the field of view
  View<const float, 3> before;  ///< logits that the network received
  View<const float, 3> logits;  ///< as written to the canvas
};

/// Return how many voxels of a move were object (probability of at least 0.8) before and are not (below 0.5) after.
[[nodiscard]] std::int64_t deleted_voxels(const Move& move);

/// Called after each evaluation of the network. May throw to stop flooding.
using OnMove = std::function<void(const Move& move)>;

/// Return the image normalised for the network: (raw - mean) / std, in float. Throws Error(invalid_argument) unless std > 0 and
/// all results are finite; the message names the first voxel that is not.
[[nodiscard]] Tensor<float, 3> normalised(View<const float, 3> raw, double mean, double std);

/// Return the probability of a logit as one byte: 1 + floor(254 p), 255 for p = 1, and 0 for a logit that is NaN. A byte q
/// above 0 stands for the probability (q - 0.5) / 255. Source: google/ffn, storage.quantize_probability.
[[nodiscard]] std::uint8_t quantised_probability(float logit) noexcept;

/// Floods the objects of one image volume. Memory use: 12 bytes per voxel for image, canvas and segmentation.
/// Source: google/ffn, inference.Canvas.
class Flooder {
 public:
  /// Makes a flooder without segments.
  /// @param image normalised image [z, y, x]
  /// Throws Error(invalid_argument) or Error(shape_mismatch) for options that do not fit each other or the image.
  Flooder(Tensor<float, 3> image, const FlooderOptions& options, Predictor predictor);

  [[nodiscard]] View<const float, 3> image() const noexcept { return image_.view(); }
  [[nodiscard]] const FlooderOptions& options() const noexcept { return options_; }
  /// Return half the field of view: the smallest distance of seeds and positions from the borders, in voxels.
  [[nodiscard]] Vec3 margin() const noexcept;
  /// Return the logits of the last object. Voxels that were never in a field of view are NaN.
  [[nodiscard]] View<const float, 3> logits() const noexcept { return canvas_.logits(); }
  /// Return the ids of the segments accepted so far. 0 is an empty voxel, -1 is a failed seed.
  [[nodiscard]] View<const std::int32_t, 3> segmentation() const noexcept { return segmentation_->view(); }
  /// Return the quantised probabilities of the voxels of segments (quantised_probability), empty without
  /// FlooderOptions::probability. They are 255 in the initial segmentation, and 0 in voxels without a segment.
  [[nodiscard]] View<const std::uint8_t, 3> probability() const noexcept { return probability_->view(); }
  /// Return the same arrays with their ownership, for callers that may keep them beyond take_result(). They show what further
  /// flooding finds.
  [[nodiscard]] std::shared_ptr<const Tensor<std::int32_t, 3>> shared_segmentation() const noexcept { return segmentation_; }
  [[nodiscard]] std::shared_ptr<const Tensor<std::uint8_t, 3>> shared_probability() const noexcept { return probability_; }
  [[nodiscard]] const std::vector<Origin>& origins() const noexcept { return found_.origins; }
  [[nodiscard]] const std::vector<Overlap>& overlaps() const noexcept { return found_.overlaps; }
  [[nodiscard]] const Counters& counters() const noexcept { return found_.counters; }
  /// Return the number of evaluations of the network so far.
  [[nodiscard]] std::int64_t evaluations() const noexcept { return found_.evaluations; }

  /// Give voxels to segments of an earlier segmentation, before any flooding. They stay as they are: objects end at them. New
  /// segments get ids above them.
  /// @param labels [z, y, x] without the halo; values of 0 or less are empty voxels
  /// Throws Error(shape_mismatch) for another shape, and Error(unsupported) for ids above 2^30.
  void set_initial(View<const std::int64_t, 3> labels);

  /// Forbid positions. Objects may still have voxels there, as in google/ffn.
  /// @param mask [z, y, x] with the halo, bits of Closed
  /// Throws Error(shape_mismatch) for another shape than that of the image.
  void set_mask(Tensor<std::uint8_t, 3> mask);

  /// Flood one object from `start` into the canvas, without changing the segmentation.
  /// @return number of evaluations of the network
  /// Throws Error(out_of_range) if no field of view fits at `start`, and Error(numerical) if a logit of the network is NaN.
  std::int64_t segment_at(const Vec3& start, const OnMove& on_move = {});

  /// Flood an object from each seed in order, and add it to the segmentation.
  ///
  /// An object is accepted if its seed is still object at the end, and if at least `min_segment_size` of its voxels are empty
  /// in the segmentation. These voxels get the new id; earlier segments keep their voxels. Most failed seeds are marked -1.
  ///
  /// `progress` gets an estimate of the voxels that are settled, and the number of voxels. Settled are the voxels of segments,
  /// those of the object under way, and a share of the others: that of the seeds outside segments that were tried. The
  /// network's evaluations are spent more evenly on these voxels than on seeds, because the first objects are large and cover
  /// most seeds. It is called for every seed and after every evaluation.
  ///
  /// `checkpoint` is called after every evaluation. It may call state(), and throw to stop flooding. After restore(), the
  /// work continues where state() was called. Throws Error(invalid_file) if the restored object has not the seed that
  /// `seeds` has there.
  void segment_all(std::span<const Vec3> seeds, const Progress& progress = {}, const std::function<void()>& checkpoint = {});

  /// Return what was found so far: during segment_all(), or after it. Allocates the canvas of the object under way.
  [[nodiscard]] FlooderState state() const;
  /// Take over what another flooder of the same image, options, initial segmentation and mask has found.
  /// @param segmentation as segmentation() [z, y, x]
  /// @param probability  as probability() [z, y, x], or empty
  /// Throws Error(shape_mismatch) for other shapes, and Error(invalid_file) for positions outside the image.
  void restore(FlooderState state, View<const std::int32_t, 3> segmentation, View<const std::uint8_t, 3> probability);

  /// Move the result out, or copy the arrays that a caller of shared_segmentation() has kept. Afterwards, the
  /// flooder refuses to flood.
  ///
  /// Marks of failed seeds become 0. The image without its halo begins at `start` of the whole volume; the positions of origins
  /// are converted to positions in the whole volume.
  [[nodiscard]] Result take_result(const Vec3& start, const Vec3& volume_shape);

 private:
  void require_result_here() const;
  [[nodiscard]] bool is_free(const Vec3& position);
  [[nodiscard]] bool is_allowed(const Vec3& position, std::uint8_t closing);
  [[nodiscard]] bool may_move_to(const Vec3& position);
  [[nodiscard]] std::int64_t settled_voxels(std::int64_t failed, std::int64_t waiting, std::int64_t calls) const;
  [[nodiscard]] bool near_segment(const Vec3& seed) const;
  void evaluate(const Vec3& position);
  void begin(const Vec3& start);
  void grow(const OnMove& on_move);
  [[nodiscard]] bool may_start_at(const Vec3& seed);
  void finish();
  [[nodiscard]] std::pair<std::int64_t, std::vector<Overlap>> measure(std::int64_t id) const;
  void accept(std::int32_t id);
  void mark_failed(const Vec3& seed);
  void count(std::string_view name, std::int64_t amount = 1);

  class Timer;

  FlooderOptions options_;
  Predictor predictor_;
  float init_logit_;
  float move_logit_;
  float segment_logit_;
  Tensor<float, 3> image_;
  Box interior_;  ///< the image without its halo
  flood::Canvas canvas_;
  flood::FaceMaxMoves moves_;
  std::shared_ptr<Tensor<std::int32_t, 3>> segmentation_;
  Tensor<std::uint8_t, 3> mask_;  ///< empty: everything is allowed
  Tensor<float, 3> image_fov_;
  Tensor<float, 3> logits_fov_;
  Tensor<float, 3> answer_;
  std::shared_ptr<Tensor<std::uint8_t, 3>> probability_;  ///< empty tensor: not kept
  std::optional<Growth> growth_;                          ///< the object under way
  double growth_start_s_ = 0.0;                           ///< when this process began to work on the object
  double all_start_s_ = 0.0;                              ///< when it began segment_all()
  std::int64_t seed_ = 0;                                 ///< index of the seed in segment_all()
  std::optional<std::int64_t> resumed_at_;                ///< seed at which the next segment_all() begins, after restore()
  std::int64_t segmented_ = 0;                            ///< voxels of all segments
  std::int32_t initial_ = 0;                              ///< largest id of the initial segmentation
  bool taken_ = false;                                    ///< true after take_result()
  Findings found_;
};

}  // namespace floodtide::segment
