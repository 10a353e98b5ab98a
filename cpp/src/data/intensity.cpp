// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/intensity.hpp"

#define EIGEN_DONT_PARALLELIZE  // all threading goes through parallel_for
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "data/purposes.hpp"
#include "floodtide/data/labels.hpp"

namespace floodtide::data {
namespace {

Intensities::Section draw_section(const Augmentation& augmentation, bool may_be_missing, Philox& random) {
  const double kind = random.uniform(), strength = random.uniform(), offset = random.uniform();
  Intensities::Section section;
  double below = augmentation.missing_section;
  if (kind < below) {
    section.missing = may_be_missing;
    return section;
  }
  if (kind < (below += augmentation.dark_section)) {
    section.gain = between(0.1, 0.6, strength);
    section.offset = between(-1.5, 1.5, offset);
  } else if (kind < below + augmentation.defocused_section) {
    section.blur = between(1, 3, strength);
  }
  return section;
}

void raise_to(double exponent, View<float, 4> image) {
  const std::int64_t channels = image.shape(3);
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    Eigen::Map<Eigen::ArrayXf, 0, Eigen::InnerStride<>> strided(image.data() + channel, image.size() / channels,
                                                                Eigen::InnerStride<>(channels));
    Eigen::ArrayXf values = strided;  // packed, so that Eigen computes several at once
    const float low = values.minCoeff(), range = values.maxCoeff() - low;
    if (range <= 0) continue;
    values = low + range * (((values - low) / range).log() * static_cast<float>(exponent)).exp();  // exp(log(0)) is 0
    strided = values;
  }
}

/// A section as a table of columns * channels rows and as many columns as it has rows.
using Section = Eigen::Map<Eigen::ArrayXXf>;
Section section_of(View<float, 4> image, std::int64_t z) {
  const auto [sections, rows, columns, channels] = image.shape();
  return {image.data() + z * rows * columns * channels, columns * channels, rows};
}

/// Blur a section with a Gaussian of this standard deviation in voxels, cut off at four of them. Outside of the section are
/// copies of its nearest voxel.
void blur(double deviation, std::int64_t channels, Section section) {
  const std::vector<float> weights = gaussian_weights(deviation, 4);
  const std::int64_t radius = std::ssize(weights) - 1, columns = section.rows(), rows = section.cols();
  Eigen::ArrayXXf wide(columns, rows + 2 * radius), high(columns + 2 * radius * channels, rows);
  wide << section.leftCols(1).replicate(1, radius), section, section.rightCols(1).replicate(1, radius);
  section = weights[0] * wide.middleCols(radius, rows);
  for (std::int64_t k = 1; k <= radius; ++k) {
    section += weights[static_cast<std::size_t>(k)] * (wide.middleCols(radius - k, rows) + wide.middleCols(radius + k, rows));
  }
  high << section.topRows(channels).replicate(radius, 1), section, section.bottomRows(channels).replicate(radius, 1);
  section = weights[0] * high.middleRows(radius * channels, columns);
  for (std::int64_t k = 1; k <= radius; ++k) {
    section += weights[static_cast<std::size_t>(k)] *
               (high.middleRows((radius - k) * channels, columns) + high.middleRows((radius + k) * channels, columns));
  }
}

/// Add independent normal numbers with this standard deviation (Marsaglia's polar method).
void add_noise(double deviation, Philox& random, Eigen::Map<Eigen::ArrayXf> values) {
  constexpr Eigen::Index kPairs = 256;
  const auto uniform = [](std::uint32_t bits) { return static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31F; };
  for (Eigen::Index begin = 0; begin < values.size(); begin += 2 * kPairs) {
    Eigen::Array<float, kPairs + 1, 3> drawn;  // x, y and their squares' sum; the last row is of no pair
    for (Eigen::Index pair = 0; pair < kPairs;) {
      const std::array<std::uint32_t, 4> bits = random.block();
      for (const std::size_t first : {0U, 2U}) {
        const float x = uniform(bits[first]), y = uniform(bits[first + 1]), square = x * x + y * y;
        drawn.row(pair) << x, y, square;
        pair += pair < kPairs && square > 0 && square < 1 ? 1 : 0;  // points in a circle
      }
    }
    const auto square = drawn.col(2).head<kPairs>();
    const auto factor = (static_cast<float>(deviation) * (-2 * square.log() / square).sqrt()).eval();
    Eigen::Array<float, 2 * kPairs, 1> noise;
    noise << drawn.col(0).head<kPairs>() * factor, drawn.col(1).head<kPairs>() * factor;
    const Eigen::Index count = std::min(2 * kPairs, values.size() - begin);
    values.segment(begin, count) += noise.head(count);
  }
}

}  // namespace

Intensities draw_intensities(const Augmentation& augmentation, std::int64_t sections, const ExampleKey& key) {
  Philox random = key.random(kIntensityPurpose);
  Intensities result;
  result.blur = augmentation.blur * random.uniform();
  result.gamma = draw_factor(augmentation.gamma, random);
  result.gain = between(1 - augmentation.gain, 1 + augmentation.gain, random.uniform());
  result.offset = between(-augmentation.offset, augmentation.offset, random.uniform());
  result.noise = augmentation.noise;
  if (augmentation.missing_section + augmentation.dark_section + augmentation.defocused_section > 0) {
    Philox defects = key.random(kSectionPurpose);
    for (std::int64_t z = 0; z < sections; ++z) {
      result.sections.push_back(draw_section(augmentation, sections >= 3, defects));
    }
  }
  return result;
}

void make_objects_faint(double probability, View<const std::int64_t, 3> labels, const Vec3& margin, Philox random,
                        View<float, 4> image) {
  if (probability == 0) return;
  const auto [depth, height, width, channels] = image.shape();
  const Box patch{{}, {depth, height, width}};
  const auto values = [&](const Vec3& at) { return Eigen::Map<Eigen::ArrayXf>(&image(at[0], at[1], at[2], 0), channels); };
  Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(channels);
  std::int64_t count = 0;
  std::map<std::int64_t, float> contrasts;  // of each object
  for_each_voxel(patch, [&](const Vec3& at) {
    const std::int64_t label = labels.at(at + margin);
    if (is_object(label)) contrasts[label] = 1;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      Vec3 next = at;
      if (++next[axis] == patch.size[axis]) continue;
      const std::int64_t other = labels.at(next + margin);
      if (label == other || label == kNoLabel || other == kNoLabel) continue;
      sum += values(at).cast<double>() + values(next).cast<double>();
      count += 2;
    }
  });
  if (count == 0) return;
  for (auto& [label, contrast] : contrasts) {
    const double chance = random.uniform(), drawn = between(-0.5, 0.5, random.uniform());
    if (chance < probability) contrast = static_cast<float>(drawn);
  }
  const Eigen::ArrayXf level = (sum / static_cast<double>(count)).cast<float>();
  for_each_voxel(patch, [&](const Vec3& at) {
    const auto found = contrasts.find(labels.at(at + margin));
    if (found == contrasts.end() || found->second == 1) return;
    values(at) = level + found->second * (values(at) - level);
  });
}

void change(const Intensities& intensities, std::span<const float> black, Philox random, View<float, 4> image) {
  Eigen::Map<Eigen::ArrayXf> values(image.data(), image.size());
  const auto sections = std::span(intensities.sections);
  for (std::int64_t z = 0; z < image.shape(0); ++z) {
    const double own = sections.empty() ? 0 : sections[static_cast<std::size_t>(z)].blur;
    if (intensities.blur > 0 || own > 0) blur(std::hypot(intensities.blur, own), image.shape(3), section_of(image, z));
  }
  if (intensities.gamma != 1) raise_to(intensities.gamma, image);
  values = static_cast<float>(intensities.gain) * values + static_cast<float>(intensities.offset);
  for (std::int64_t z = 0; z < std::ssize(sections); ++z) {
    const Intensities::Section& own = sections[static_cast<std::size_t>(z)];
    Section section = section_of(image, z);
    if (own.gain != 1) section = static_cast<float>(own.gain) * section + static_cast<float>(own.offset);
  }
  if (intensities.noise > 0) add_noise(intensities.noise, random, values);
  for (std::int64_t z = 0; z < std::ssize(sections); ++z) {
    if (!sections[static_cast<std::size_t>(z)].missing) continue;
    Section section = section_of(image, z);
    for (std::int64_t i = 0; i < section.rows(); ++i) section.row(i) = black[static_cast<std::size_t>(i) % black.size()];
  }
}

std::vector<float> gaussian_weights(double deviation, double cut_off) {
  const auto radius = static_cast<Eigen::Index>(cut_off * deviation + 0.5);
  const Eigen::ArrayXd distance = Eigen::ArrayXd::LinSpaced(radius + 1, 0, static_cast<double>(radius));
  const Eigen::ArrayXd exact = (-0.5 * (distance / deviation).square()).exp();
  const Eigen::ArrayXf weights = (exact / (2 * exact.sum() - exact[0])).cast<float>();
  return {weights.begin(), weights.end()};
}

}  // namespace floodtide::data
