// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/synth.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <vector>

#include "data/blocks.hpp"
#include "data/purposes.hpp"
#include "data/synth_tubes.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::data {
namespace {

// Grey levels and lengths (voxels), matched by eye and by histogram to FIB-25: mean 130, standard deviation 33.
constexpr float kCytoplasm = 156;
constexpr float kMembrane = 100;         // how much darker, before blur
constexpr float kMembraneWidth = 1.6F;   // Gaussian half width of the profile
constexpr float kMembraneHalfWidth = 1;  // labelled as background
constexpr float kNoise = 12;             // standard deviation at mid grey, before the sensor's blur
constexpr double kBlurSigma = 0.7;

constexpr Vec3 kBlock{8, 8, 8};
constexpr float kBend = 2.2F;       // voxels; standard deviation of the lattice values that bend space
constexpr float kBendSpacing = 11;  // voxels
constexpr float kInfinity = std::numeric_limits<float>::max();

/// Smooth random field: standard normal values on a lattice of `spacing` voxels, interpolated between them. Its standard
/// deviation is about 0.6 on average (interpolation averages lattice values).
class SmoothNoise {
 public:
  SmoothNoise(const Vec3& shape, float spacing, std::uint64_t seed, std::uint64_t field) : scale_(1 / spacing) {
    values_ = Tensor<float, 3>(by_axis([&](std::size_t axis) { return part(shape[axis]).index + 2; }));
    Philox random(seed, stream_id(kSynthPurpose, 1, field));
    for (float& value : values_.span()) value = static_cast<float>(random.normal());
  }

  /// Return the value at a voxel of the volume.
  [[nodiscard]] float operator()(const Vec3& voxel) const {
    const Part a = part(voxel[0]);
    const Part b = part(voxel[1]);
    const Part c = part(voxel[2]);
    const View<const float, 3> v = values_.view();
    const auto along_x = [&](std::int64_t i, std::int64_t j) {
      const float low = v(i, j, c.index);
      return low + c.share * (v(i, j, c.index + 1) - low);
    };
    const auto along_y = [&](std::int64_t i) {
      const float low = along_x(i, b.index);
      return low + b.share * (along_x(i, b.index + 1) - low);
    };
    const float low = along_y(a.index);
    return low + a.share * (along_y(a.index + 1) - low);
  }

 private:
  struct Part {
    std::int64_t index;
    float share;
  };
  [[nodiscard]] Part part(std::int64_t voxel) const {
    const float at = static_cast<float>(voxel) * scale_;
    const auto index = static_cast<std::int64_t>(at);
    const float t = at - static_cast<float>(index);
    return {index, t * t * (3 - 2 * t)};  // smooth at the lattice points
  }

  float scale_;
  Tensor<float, 3> values_;
};

/// The cell of every voxel, and the approximate distance in voxels to the nearest other cell.
struct Cells {
  Tensor<std::int64_t, 3> labels;
  Tensor<float, 3> depth;
};

/// The balls that can be first or second (of another tube) for some point within `radius` of `middle`.
std::vector<Ball> candidates(const BallGrid& balls, const Point& middle, float radius) {
  const int largest = balls.largest_reach();
  for (int reach = 2;; reach *= 2) {
    // Upper bounds of the power distance, the least for each tube.
    std::unordered_map<std::int64_t, float> bounds;
    balls.near(middle, reach, [&](const Ball& ball) {
      const float far = distance(ball.centre, middle) + radius;
      const float bound = far * far - ball.radius * ball.radius;
      const auto [entry, is_new] = bounds.try_emplace(ball.tube, bound);
      if (!is_new) entry->second = std::min(entry->second, bound);
    });
    float first = kInfinity;
    float second = kInfinity;
    for (const auto& [tube, bound] : bounds) {
      second = std::min(second, std::max(first, bound));
      first = std::min(first, bound);
    }
    // Balls outside the bins looked at are at least this far from every point.
    const float outside = std::max(0.0F, static_cast<float>(reach) * BallGrid::kBin - radius);
    const bool complete = second < outside * outside - kLargestTubeRadius * kLargestTubeRadius;
    if (!complete && reach < largest) continue;
    std::vector<Ball> result;
    balls.near(middle, reach, [&](const Ball& ball) {
      const float near = std::max(0.0F, distance(ball.centre, middle) - radius);
      if (near * near - ball.radius * ball.radius <= second) result.push_back(ball);
    });
    return result;
  }
}

struct Nearest {
  const Ball* owner;
  float depth;
};

Nearest find_nearest(const std::vector<Ball>& balls, const Point& at) {
  float first = kInfinity;
  float second = kInfinity;
  const Ball* owner = nullptr;
  const Ball* rival = nullptr;
  for (const Ball& ball : balls) {
    const float dz = ball.centre[0] - at[0];
    const float dy = ball.centre[1] - at[1];
    const float dx = ball.centre[2] - at[2];
    const float power = dz * dz + dy * dy + dx * dx - ball.radius * ball.radius;
    if (power < first) {
      if (owner != nullptr && owner->tube != ball.tube) {
        second = first;
        rival = owner;
      }
      first = power;
      owner = &ball;
    } else if (power < second && ball.tube != owner->tube) {
      second = power;
      rival = &ball;
    }
  }
  FLOODTIDE_ASSERT(owner != nullptr);
  // The power distances of two balls differ by 2 |c1 - c2| times the distance from the plane between them.
  if (rival == nullptr) return {owner, kInfinity};
  return {owner, (second - first) / (2 * std::max(1.0F, distance(owner->centre, rival->centre)))};
}

/// Assign each voxel to the tube of the ball with the smallest power distance |v - c|^2 - r^2. Smooth noise displaces the
/// voxels before, so that the faces of cells are uneven. The cells fill the volume. Runs on all threads.
Cells fill_cells(const BallGrid& balls, const Vec3& shape, std::uint64_t seed) {
  Cells cells{Tensor<std::int64_t, 3>(shape), Tensor<float, 3>(shape)};
  const SmoothNoise bend_z(shape, kBendSpacing, seed, 1);
  const SmoothNoise bend_y(shape, kBendSpacing, seed, 2);
  const SmoothNoise bend_x(shape, kBendSpacing, seed, 3);
  const BlockGrid grid({{0, 0, 0}, shape}, kBlock);
  parallel_for(grid.size(), [&](std::int64_t number) {
    const Box block = grid[number];
    std::vector<Point> bent;
    Point middle{};
    for_each_voxel(block, [&](const Vec3& voxel) {
      const auto [z, y, x] = voxel;
      bent.push_back({static_cast<float>(z) + kBend * bend_z(voxel), static_cast<float>(y) + kBend * bend_y(voxel),
                      static_cast<float>(x) + kBend * bend_x(voxel)});
      for (std::size_t axis = 0; axis < 3; ++axis) middle[axis] += bent.back()[axis];
    });
    float radius = 0;
    for (float& mean : middle) mean /= static_cast<float>(bent.size());
    for (const Point& at : bent) radius = std::max(radius, distance(at, middle));
    const std::vector<Ball> near = candidates(balls, middle, radius);
    const Point* at = bent.data();
    for_each_voxel(block, [&](const Vec3& voxel) {
      const Nearest found = find_nearest(near, *at++);
      cells.labels.view().at(voxel) = found.owner->tube;
      cells.depth.view().at(voxel) = found.depth;
    });
  });
  return cells;
}

/// Dark bodies inside cells: capsules with a rim and stripes.
struct Mitochondrion {
  Point start;
  Point end;
  float radius;
};

std::vector<Mitochondrion> place_mitochondria(const Cells& cells, std::uint64_t seed) {
  const Vec3& shape = cells.labels.shape();
  Philox random(seed, stream_id(kSynthPurpose, 2));
  const std::int64_t attempts = cells.labels.size() / 40000;
  std::vector<Mitochondrion> result;
  for (std::int64_t i = 0; i < attempts; ++i) {
    const Vec3 at = by_axis(
        [&](std::size_t axis) { return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(shape[axis]))); });
    const double size = random.uniform();
    const Point direction{static_cast<float>(random.normal()), static_cast<float>(random.normal()),
                          static_cast<float>(random.normal())};
    const float depth = cells.depth.view().at(at);
    if (depth < 6) continue;  // only where the cell has room
    const float radius = std::min(0.65F * depth, 3.5F + 3.5F * static_cast<float>(size));
    const float norm = std::sqrt(direction[0] * direction[0] + direction[1] * direction[1] + direction[2] * direction[2]);
    Mitochondrion body{.start = {}, .end = {}, .radius = radius};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      body.start[axis] = static_cast<float>(at[axis]);
      body.end[axis] = body.start[axis] + 2.5F * radius * direction[axis] / norm;
    }
    result.push_back(body);
  }
  return result;
}

/// Darkens `image` by each body, as far as the cell that holds its start reaches.
void draw_mitochondria(const std::vector<Mitochondrion>& bodies, const Cells& cells, const SmoothNoise& texture,
                       View<float, 3> image) {
  const Vec3& shape = image.shape();
  for (const Mitochondrion& body : bodies) {
    const std::int64_t cell =
        cells.labels.view()(std::lround(body.start[0]), std::lround(body.start[1]), std::lround(body.start[2]));
    Vec3 low;
    Vec3 high;
    Point axis_vector;
    float length2 = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      low[axis] = std::max<std::int64_t>(0, std::lround(std::min(body.start[axis], body.end[axis]) - body.radius - 2));
      high[axis] =
          std::min<std::int64_t>(shape[axis], std::lround(std::max(body.start[axis], body.end[axis]) + body.radius + 3));
      axis_vector[axis] = body.end[axis] - body.start[axis];
      length2 += axis_vector[axis] * axis_vector[axis];
    }
    for_each_voxel({low, high - low}, [&](const Vec3& voxel) {
      if (cells.labels.view().at(voxel) != cell || cells.depth.view().at(voxel) < 2.5F) return;
      Point from{};
      for (std::size_t axis = 0; axis < 3; ++axis) from[axis] = static_cast<float>(voxel[axis]) - body.start[axis];
      const float along =
          std::clamp((from[0] * axis_vector[0] + from[1] * axis_vector[1] + from[2] * axis_vector[2]) / length2, 0.0F, 1.0F);
      float distance2 = 0;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const float d = from[axis] - along * axis_vector[axis];
        distance2 += d * d;
      }
      const float rim = std::sqrt(distance2) - body.radius + 0.8F * texture(voxel);
      if (rim > 1.5F) return;
      const float inside = kCytoplasm - 48 + 16 * std::sin(1.6F * rim + 2.0F * along);  // cristae
      const float wanted = rim > -1.3F ? kCytoplasm - 72 : inside;
      image.at(voxel) = std::min(image.at(voxel), wanted);
    });
  }
}

/// Gaussian blur along one axis, in place; values beyond the faces repeat.
void blur(View<float, 3> image, std::size_t axis) {
  const int reach = static_cast<int>(std::ceil(3 * kBlurSigma));
  std::vector<float> weights;
  float total = 0;
  for (int i = -reach; i <= reach; ++i) {
    weights.push_back(static_cast<float>(std::exp(-0.5 * i * i / (kBlurSigma * kBlurSigma))));
    total += weights.back();
  }
  for (float& weight : weights) weight /= total;
  const Vec3& shape = image.shape();
  const Vec3 strides{shape[1] * shape[2], shape[2], 1};
  const std::size_t first = axis == 0 ? 1 : 0;
  const std::size_t second = axis == 2 ? 1 : 2;
  parallel_for(shape[first], [&](std::int64_t i) {
    std::vector<float> line(static_cast<std::size_t>(shape[axis]));
    for (std::int64_t j = 0; j < shape[second]; ++j) {
      float* start = image.data() + i * strides[first] + j * strides[second];
      for (std::int64_t k = 0; k < shape[axis]; ++k) line[static_cast<std::size_t>(k)] = start[k * strides[axis]];
      for (std::int64_t k = 0; k < shape[axis]; ++k) {
        float sum = 0;
        for (int w = -reach; w <= reach; ++w) {
          sum += weights[static_cast<std::size_t>(w + reach)] *
                 line[static_cast<std::size_t>(std::clamp<std::int64_t>(k + w, 0, shape[axis] - 1))];
        }
        start[k * strides[axis]] = sum;
      }
    }
  });
}

void paint_cells(const Cells& cells, const SynthOptions& options, View<float, 3> image) {
  const SmoothNoise thickness(options.shape, 14, options.seed, 4);
  const SmoothNoise contrast(options.shape, 18, options.seed, 5);
  const SmoothNoise granules(options.shape, 3.2F, options.seed, 6);
  const SmoothNoise shade(options.shape, 40, options.seed, 7);
  parallel_for(options.shape[0], [&](std::int64_t z) {
    for_each_voxel({{z, 0, 0}, {1, options.shape[1], options.shape[2]}}, [&](const Vec3& voxel) {
      const auto cell = static_cast<std::uint64_t>(cells.labels.view().at(voxel));
      Philox own(options.seed, stream_id(kSynthPurpose, 3, cell));
      const auto tone = static_cast<float>(own.uniform());
      const auto grain = static_cast<float>(own.uniform());
      const float width = kMembraneWidth * std::exp(0.25F * thickness(voxel));
      const float depth = cells.depth.view().at(voxel) / width;
      const float darkness = std::clamp(1.0F + 0.12F * contrast(voxel), 0.8F, 1.25F);
      // Vesicles and filaments: the darker tail of fine noise, more of it in some cells than in others.
      const float dots = std::max(0.0F, granules(voxel) - 0.5F) * (2 + 8 * grain);
      image.at(voxel) = kCytoplasm + 12 * (tone - 0.5F) + 12 * shade(voxel) - dots * std::min(1.0F, depth / 2) -
                        kMembrane * darkness * std::exp(-depth * depth);
    });
  });
}

/// Sections of uneven brightness, shot noise, and rounding to eight bits.
Tensor<std::uint8_t, 3> expose(const SynthOptions& options, View<const float, 3> image) {
  Tensor<std::uint8_t, 3> result(options.shape);
  parallel_for(options.shape[0], [&](std::int64_t z) {
    Philox section(options.seed, stream_id(kSynthPurpose, 4, static_cast<std::uint64_t>(z)));
    const auto gain = static_cast<float>(1 + 0.035 * section.normal());
    const auto offset = static_cast<float>(3.0 * section.normal());
    for_each_voxel({{z, 0, 0}, {1, options.shape[1], options.shape[2]}}, [&](const Vec3& voxel) {
      const float grey = std::max(1.0F, gain * image.at(voxel) + offset);
      const float sigma = kNoise * std::sqrt(grey / 128);
      const float value = grey + sigma * static_cast<float>(section.normal());
      result.view().at(voxel) = static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L));
    });
  });
  return result;
}

}  // namespace

SynthVolume make_synthetic_volume(const SynthOptions& options, const Progress& progress) {
  for (const std::int64_t extent : options.shape) {
    FLOODTIDE_REQUIRE(extent >= 8 && extent <= 4096, invalid_argument, "synth: shape ", Show{options.shape},
                      " (z, y, x), expected 8 to 4096 voxels an axis");
  }
  constexpr std::int64_t kStages = 4;
  const BallGrid balls = grow_tubes(options.shape, options.seed);
  report(progress, 1, kStages);
  Cells cells = fill_cells(balls, options.shape, options.seed);
  report(progress, 2, kStages);
  Tensor<float, 3> image(options.shape);
  paint_cells(cells, options, image.view());
  const SmoothNoise texture(options.shape, 5, options.seed, 8);
  draw_mitochondria(place_mitochondria(cells, options.seed), cells, texture, image.view());
  report(progress, 3, kStages);
  for (std::size_t axis = 0; axis < 3; ++axis) blur(image.view(), axis);
  for (std::int64_t i = 0; i < cells.labels.size(); ++i) {
    if (cells.depth.data()[i] < kMembraneHalfWidth) cells.labels.data()[i] = 0;
  }
  SynthVolume volume{expose(options, image.view()), std::move(cells.labels)};
  report(progress, kStages, kStages);
  return volume;
}

}  // namespace floodtide::data
