// SPDX-License-Identifier: Apache-2.0
// The order of the checks is that of google/ffn, so that published segmentations are reproduced voxel by voxel.
#include "floodtide/segment/flooder.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/immovable.hpp"

namespace floodtide::segment {
namespace {

constexpr std::int32_t kFailedSeed = -1;
constexpr std::uint8_t kCertain = 255;
constexpr std::uint8_t kMoves = kClosedToMoves | kClosedByShift;
constexpr std::int64_t kLargestInitialId = std::int64_t{1} << 30;  // leaves room for new ids

// How often, at most, a flooder counts the seeds that are in no segment, for its progress. In large volumes, to count them
// after every segment would take minutes.
constexpr std::int64_t kRecounts = 128;

constexpr int kProbabilitySteps = 254;

/// Return a bound of numpy.linspace(0, 1, 255). Comparing with bounds, as google/ffn does, can differ by one from floor(254 p).
double bound(int step) noexcept { return step == kProbabilitySteps ? 1.0 : step * (1.0 / kProbabilitySteps); }

/// Return the part of a volume without its halo, moved out of it if there is no halo and nobody else has kept the volume.
template <class T>
Tensor<T, 3> without_halo(const std::shared_ptr<Tensor<T, 3>>& volume, const Box& interior) {
  if (interior.size == volume->shape() && volume.use_count() == 1) return std::move(*volume);
  Tensor<T, 3> part(interior.size);
  copy_box(View<const T, 3>(volume->view()), interior, part.view());
  return part;
}

}  // namespace

std::uint8_t quantised_probability(float logit) noexcept {
  if (std::isnan(logit)) return 0;
  const auto p = static_cast<double>(1.0F / (1.0F + std::exp(-logit)));
  int step = static_cast<int>(p * kProbabilitySteps);
  while (step < kProbabilitySteps && bound(step + 1) <= p) ++step;
  while (step > 0 && bound(step) > p) --step;
  return static_cast<std::uint8_t>(step + 1);
}

Predictor network_predictor(nn::Ffn& network, std::optional<nn::Forward> forward) {
  return [&network, forward, version = network.use().version()](View<const float, 3> image, View<const float, 3> logits,
                                                                View<float, 3> out_logits) {
    const nn::FfnExample field{image, logits, out_logits, {}, {}};
    network.forward({&field, 1}, forward);
    network.use().require_version(version, "segment");
  };
}

Tensor<float, 3> normalised(View<const float, 3> raw, double mean, double std) {
  FLOODTIDE_REQUIRE(std > 0.0, invalid_argument, "segment: image std is ", std, ", expected a positive number");
  const auto offset = static_cast<float>(mean);
  const auto scale = static_cast<float>(std);
  Tensor<float, 3> image(raw.shape());
  for (std::int64_t i = 0; i < raw.size(); ++i) {
    image.data()[i] = (raw.data()[i] - offset) / scale;
    if (!std::isfinite(image.data()[i])) {
      raise(ErrorCode::invalid_argument, "segment: image is ", raw.data()[i], " at voxel ", Show{position_of(i, raw.shape())},
            " (z, y, x), expected finite numbers");
    }
  }
  return image;
}

std::int64_t deleted_voxels(const Move& move) {
  static const auto kObject = static_cast<float>(flood::google_ffn_logit(0.8, "segment: 0.8"));
  std::int64_t deleted = 0;
  for (std::int64_t i = 0; i < move.logits.size(); ++i) {
    deleted += move.before.data()[i] >= kObject && move.logits.data()[i] < 0.0F ? 1 : 0;
  }
  return deleted;
}

/// Counts a call and its time in the counters <name>-calls and <name>-time-ms, as google/ffn does.
class Flooder::Timer : Immovable {
 public:
  Timer(Flooder& flooder, const std::string& name)
      : calls_(flooder.found_.counters[name + "-calls"]),
        time_ms_(flooder.found_.counters[name + "-time-ms"]),
        sum_s_(flooder.found_.times_s[name]),
        start_s_(now_s()) {}
  ~Timer() {
    sum_s_ += now_s() - start_s_;
    time_ms_ = static_cast<std::int64_t>(sum_s_ * 1e3);
    ++calls_;
  }

 private:
  std::int64_t& calls_;
  std::int64_t& time_ms_;
  double& sum_s_;
  double start_s_;
};

Flooder::Flooder(Tensor<float, 3> image, const FlooderOptions& options, Predictor predictor)
    : options_(options),
      predictor_(std::move(predictor)),
      init_logit_(static_cast<float>(flood::google_ffn_logit(options.init_activation, "segment: init_activation"))),
      move_logit_(static_cast<float>(flood::google_ffn_logit(options.move_threshold, "segment: move_threshold"))),
      segment_logit_(static_cast<float>(flood::google_ffn_logit(options.segment_threshold, "segment: segment_threshold"))),
      image_(std::move(image)),
      interior_{options.halo_low, image_.shape()},
      canvas_(image_.shape(), options.fov,
              static_cast<float>(flood::google_ffn_logit(options.pad_value, "segment: pad_value"))),
      moves_(options.deltas, flood::google_ffn_logit(options.move_threshold, "segment: move_threshold")),
      segmentation_(std::make_shared<Tensor<std::int32_t, 3>>(image_.shape())),
      image_fov_(options.fov),
      logits_fov_(options.fov),
      answer_(options.fov) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    FLOODTIDE_REQUIRE(options.deltas[axis] <= options.fov[axis] / 2, invalid_argument, "segment: deltas ", Show{options.deltas},
                      " (z, y, x), expected at most half of the field of view ", Show{options.fov});
    FLOODTIDE_REQUIRE(options.min_boundary_dist[axis] >= 0, invalid_argument, "segment: min_boundary_dist ",
                      Show{options.min_boundary_dist}, " is negative");
  }
  for (std::size_t axis = 0; axis < 3; ++axis) {
    interior_.size[axis] -= options.halo_low[axis] + options.halo_high[axis];
    FLOODTIDE_REQUIRE(options.halo_low[axis] >= 0 && options.halo_high[axis] >= 0 && interior_.size[axis] >= 1,
                      invalid_argument, "segment: a halo of ", Show{options.halo_low}, " and ", Show{options.halo_high},
                      " voxels (z, y, x) in an image of ", Show{image_.shape()}, ", expected at least one voxel between");
  }
  FLOODTIDE_REQUIRE(options.min_segment_size >= 0, invalid_argument, "segment: min_segment_size is ", options.min_segment_size,
                    ", expected 0 or more");
  probability_ = std::make_shared<Tensor<std::uint8_t, 3>>(options.probability ? image_.shape() : Vec3{});
}

void Flooder::require_result_here() const {
  FLOODTIDE_REQUIRE(!taken_, invalid_argument, "segment: the result of this flooder was taken, expected a new flooder");
}

void Flooder::set_initial(View<const std::int64_t, 3> labels) {
  require_result_here();
  FLOODTIDE_REQUIRE(labels.shape() == interior_.size, shape_mismatch, "segment: the initial segmentation has ",
                    Show{labels.shape()}, " voxels (z, y, x), the image ", Show{interior_.size});
  FLOODTIDE_ASSERT(found_.origins.empty());
  Tensor<std::int32_t, 3> ids(labels.shape());
  for (std::int64_t i = 0; i < labels.size(); ++i) {
    const std::int64_t label = std::max<std::int64_t>(labels.data()[i], 0);
    FLOODTIDE_REQUIRE(label <= kLargestInitialId, unsupported, "segment: the initial segmentation has id ", label,
                      ", expected at most ", kLargestInitialId);
    ids.data()[i] = static_cast<std::int32_t>(label);
    initial_ = std::max(initial_, ids.data()[i]);
    segmented_ += label > 0 ? 1 : 0;
  }
  paste_box(View<const std::int32_t, 3>(ids.view()), segmentation_->view(), interior_);
  for (std::int64_t i = 0; i < probability_->size(); ++i) {
    probability_->data()[i] = segmentation_->data()[i] > 0 ? kCertain : std::uint8_t{0};
  }
}

void Flooder::set_mask(Tensor<std::uint8_t, 3> mask) {
  FLOODTIDE_REQUIRE(mask.shape() == image_.shape(), shape_mismatch, "segment: the mask has ", Show{mask.shape()},
                    " voxels (z, y, x), the image ", Show{image_.shape()});
  mask_ = std::move(mask);
}

Vec3 Flooder::margin() const noexcept { return Box{{}, options_.fov}.middle(); }

void Flooder::count(std::string_view name, std::int64_t amount) { found_.counters[std::string(name)] += amount; }

/// True if a field of view fits at `position`, and no segment has this voxel.
bool Flooder::is_free(const Vec3& position) {
  if (canvas_.holds_fov(position) && segmentation_->view().at(position) <= 0) return true;
  count("skip_invalid_pos");
  return false;
}

/// True unless the mask has one of the bits at this position.
bool Flooder::is_allowed(const Vec3& position, std::uint8_t closing) {
  if (mask_.size() == 0 || (std::as_const(mask_).view().at(position) & closing) == 0) return true;
  count("skip_restriced_pos");  // google/ffn's spelling
  return false;
}

bool Flooder::may_move_to(const Vec3& position) {
  if (canvas_[position] < move_logit_) {
    count("skip_threshold");
    return false;
  }
  return is_free(position) && is_allowed(position, kMoves);
}

bool Flooder::near_segment(const Vec3& seed) const {
  const Box box = intersection(Box{seed, {1, 1, 1}}.grown(options_.min_boundary_dist), {{}, canvas_.shape()});
  bool near = false;
  for_each_voxel(box, [&](const Vec3& voxel) { near = near || segmentation_->view().at(voxel) > 0; });
  return near;
}

void Flooder::evaluate(const Vec3& position) {
  const Timer timer(*this, "update_at");
  copy_box(image(), centred_box(position, options_.fov), image_fov_.view());
  canvas_.cut(position, logits_fov_.view());
  {
    const Timer inference(*this, "inference");
    predictor_(image_fov_.view(), logits_fov_.view(), answer_.view());
    ++found_.evaluations;
  }
  const auto answer = answer_.span();
  FLOODTIDE_REQUIRE(std::none_of(answer.begin(), answer.end(), [](float value) { return std::isnan(value); }), numerical,
                    "segment: the network's logits at ", Show{position}, " (z, y, x) are not numbers");
  if (options_.disco_seed_threshold >= 0.0) {
    canvas_.keep_disconnected(position, move_logit_, options_.disco_seed_threshold, answer_.view());
  }
  canvas_.paste(position, answer_.view());
}

/// Put the start of an object on the canvas.
void Flooder::begin(const Vec3& start) {
  canvas_.reset(start, init_logit_);
  moves_.reset(start);
  growth_ = Growth{start};
}

/// Evaluate the network until the object under way is complete.
void Flooder::grow(const OnMove& on_move) {
  const Timer timer(*this, "segment_at-loop");
  growth_start_s_ = now_s();
  Growth& growth = *growth_;
  while (const auto position = moves_.next([this](const Vec3& candidate) { return may_move_to(candidate); })) {
    if (canvas_[growth.start] < move_logit_) {
      count("seed_got_too_weak");
      break;
    }
    evaluate(*position);
    ++growth.iterations;
    {
      const Timer policy(*this, "movement_policy");
      moves_.evaluated(*position, answer_.view());
    }
    if (on_move) on_move({growth.iterations - 1, *position, logits_fov_.view(), answer_.view()});
  }
  growth.walltime_s += now_s() - growth_start_s_;
}

std::int64_t Flooder::segment_at(const Vec3& start, const OnMove& on_move) {
  require_result_here();
  FLOODTIDE_REQUIRE(canvas_.holds_fov(start), out_of_range, "segment: no field of view ", Show{options_.fov}, " fits at ",
                    Show{start}, " (z, y, x) in a volume of ", Show{canvas_.shape()});
  begin(start);
  grow(on_move);
  return std::exchange(growth_, std::nullopt)->iterations;
}

/// Return how many voxels of the object on the canvas are empty in the segmentation, and its overlaps with earlier segments.
std::pair<std::int64_t, std::vector<Overlap>> Flooder::measure(std::int64_t id) const {
  std::int64_t empty = 0;
  std::map<std::int32_t, std::int64_t> taken;
  canvas_.for_each_touched(interior_, [&](const Vec3& voxel, float logit) {
    if (!(logit >= segment_logit_)) return;
    const std::int32_t label = segmentation_->view().at(voxel);
    if (label > 0) {
      ++taken[label];
    } else {
      ++empty;
    }
  });
  std::vector<Overlap> overlaps;
  for (const auto& [earlier, voxels] : taken) overlaps.push_back({id, earlier, voxels});
  return {empty, overlaps};
}

void Flooder::accept(std::int32_t id) {
  canvas_.for_each_touched(interior_, [&](const Vec3& voxel, float logit) {
    if (!(logit >= segment_logit_)) return;
    std::int32_t& label = segmentation_->view().at(voxel);
    if (label > 0) return;
    label = id;
    if (probability_->size() > 0) probability_->view().at(voxel) = quantised_probability(logit);
  });
}

void Flooder::mark_failed(const Vec3& seed) {
  std::int32_t& label = segmentation_->view().at(seed);
  if (label == 0) label = kFailedSeed;
}

bool Flooder::may_start_at(const Vec3& seed) {
  if (!is_free(seed) || !is_allowed(seed, kMoves | kClosedToSeeds)) return false;
  if (!near_segment(seed)) return true;
  segmentation_->view().at(seed) = kFailedSeed;
  return false;
}

/// Accept or reject the object under way, which is complete.
void Flooder::finish() {
  const Growth growth = *std::exchange(growth_, std::nullopt);
  const Vec3& seed = growth.start;
  const auto walltime_ms = static_cast<std::int64_t>(growth.walltime_s * 1e3);
  if (growth.iterations == 0) {
    count("invalid-other-time-ms", walltime_ms);
    return;
  }
  if (canvas_[seed] < move_logit_) {
    mark_failed(seed);
    count("invalid-weak-time-ms", walltime_ms);
    return;
  }
  const auto id = initial_ + static_cast<std::int32_t>(found_.origins.size() + 1);
  const auto [voxels, overlaps] = measure(id);
  if (voxels < options_.min_segment_size) {
    mark_failed(seed);
    count("invalid-small-time-ms", walltime_ms);
    return;
  }
  accept(id);
  std::int64_t overlapping = 0;
  for (const Overlap& overlap : overlaps) overlapping += overlap.voxels;
  segmented_ += voxels;
  count("voxels-segmented", voxels);
  count("voxels-overlapping", overlapping);
  count("valid-time-ms", walltime_ms);
  found_.overlaps.insert(found_.overlaps.end(), overlaps.begin(), overlaps.end());
  found_.origins.push_back({id, seed, growth.iterations, voxels, growth.walltime_s});
}

std::int64_t Flooder::settled_voxels(std::int64_t failed, std::int64_t waiting, std::int64_t calls) const {
  const std::int64_t others = interior_.voxels() - segmented_;
  const std::int64_t seeds = std::max<std::int64_t>(1, failed + waiting);
  const auto without_segment = static_cast<double>(others) * static_cast<double>(failed) / static_cast<double>(seeds);
  // A call settles about as many voxels as lie between two places of the field of view.
  std::int64_t of_call = 1;
  for (const std::int64_t delta : options_.deltas) of_call *= std::max<std::int64_t>(1, delta);
  return segmented_ + std::min(others, static_cast<std::int64_t>(without_segment) + calls * of_call);
}

void Flooder::segment_all(std::span<const Vec3> seeds, const Progress& progress, const std::function<void()>& checkpoint) {
  require_result_here();
  if (!resumed_at_) growth_.reset();  // an error has ended an earlier call
  const bool resumed_at_end = resumed_at_ == std::ssize(seeds);
  const auto first = static_cast<std::size_t>(std::exchange(resumed_at_, std::nullopt).value_or(0));
  FLOODTIDE_REQUIRE(first <= seeds.size() && (!growth_ || (first < seeds.size() && seeds[first] == growth_->start)),
                    invalid_file, "segment: the checkpoint is at seed ", first, ", and not of these ", seeds.size(),
                    " seeds; expected the same seeds");
  const std::int64_t total = interior_.voxels();
  if (resumed_at_end) return report(progress, total, total);
  const Timer timer(*this, "segment_all");
  all_start_s_ = now_s();
  const Box whole{{}, image_.shape()};
  const auto in_segment = [&](const Vec3& seed) { return whole.contains(seed) && segmentation_->view().at(seed) > 0; };
  const auto outside = [&](std::span<const Vec3> some) {
    return std::ssize(some) - std::count_if(some.begin(), some.end(), in_segment);
  };
  std::int64_t failed = outside(seeds.first(first));                                      // tried seeds that are in no segment
  std::int64_t waiting = first == 0 ? std::ssize(seeds) : outside(seeds.subspan(first));  // neither tried nor in a segment
  std::int64_t counted = segmented_;                                                      // voxels in segments at that time
  for (std::size_t i = first; i < seeds.size(); ++i) {
    seed_ = static_cast<std::int64_t>(i);
    const Vec3& seed = seeds[i];
    if (!in_segment(seed)) --waiting;
    report(progress, settled_voxels(failed, waiting, 0), total);
    const bool resumed = growth_.has_value();
    if (resumed || may_start_at(seed)) {
      if (!resumed) begin(seed);
      grow([&](const Move& move) {
        report(progress, settled_voxels(failed, waiting, move.index + 1), total);
        if (checkpoint) checkpoint();
      });
      finish();
    }
    if (!in_segment(seed)) ++failed;
    if (segmented_ - counted > total / kRecounts) {
      waiting = outside(seeds.subspan(i + 1));
      counted = segmented_;
    }
  }
  seed_ = std::ssize(seeds);
  report(progress, total, total);
}

Result Flooder::take_result(const Vec3& start, const Vec3& volume_shape) {
  require_result_here();
  taken_ = true;
  Tensor<std::int32_t, 3> labels = without_halo(segmentation_, interior_);
  for (std::int32_t& label : labels.span()) label = std::max(label, 0);
  for (Origin& origin : found_.origins) {
    origin.start = origin.start + start - interior_.start;
  }
  const auto largest = initial_ + static_cast<std::int64_t>(found_.origins.size());
  Tensor<std::uint8_t, 3> probability;
  if (probability_->size() > 0) probability = without_halo(probability_, interior_);
  return {std::move(labels),          start,   volume_shape,          std::move(found_.origins), std::move(found_.overlaps),
          std::move(found_.counters), largest, std::move(probability)};
}

}  // namespace floodtide::segment
