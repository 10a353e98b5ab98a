// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/intensity.hpp"

#define EIGEN_DONT_PARALLELIZE  // all threading goes through parallel_for
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "data/purposes.hpp"

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
    values = (values - low) / range;
    strided = low + range * (values.log() * static_cast<float>(exponent)).exp();  // exp(log(0)) is 0
  }
}

std::span<float> section_of(View<float, 4> image, std::int64_t z) {
  const std::int64_t voxels = image.size() / image.shape(0);
  return {image.data() + z * voxels, static_cast<std::size_t>(voxels)};
}

void scale(double gain, double offset, std::span<float> values) {
  const auto factor = static_cast<float>(gain), added = static_cast<float>(offset);
  for (float& value : values) value = factor * value + added;
}

/// Blur `count` values that lie `stride` apart; `scratch` has room for them.
void blur_line(std::span<const float> weights, float* values, std::int64_t count, std::int64_t stride,
               std::span<float> scratch) {
  const std::int64_t radius = std::ssize(weights) - 1;
  for (std::int64_t i = 0; i < count; ++i) scratch[static_cast<std::size_t>(i)] = values[i * stride];
  const auto at = [&](std::int64_t i) { return scratch[static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, count - 1))]; };
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = weights[0] * at(i);
    for (std::int64_t k = 1; k <= radius; ++k) sum += weights[static_cast<std::size_t>(k)] * (at(i - k) + at(i + k));
    values[i * stride] = sum;
  }
}

/// Blur each section with a Gaussian of this standard deviation in voxels, cut off at four of them. Outside of the section are
/// copies of its nearest voxel.
void blur_section(double deviation, std::int64_t z, View<float, 4> image) {
  const std::vector<float> weights = gaussian_weights(deviation, 4);
  const auto [sections, rows, columns, channels] = image.shape();
  std::vector<float> scratch(static_cast<std::size_t>(std::max(rows, columns)));
  float* section = section_of(image, z).data();
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    for (std::int64_t x = 0; x < columns; ++x) {
      blur_line(weights, section + x * channels + channel, rows, columns * channels, scratch);
    }
    for (std::int64_t y = 0; y < rows; ++y) {
      blur_line(weights, section + y * columns * channels + channel, columns, channels, scratch);
    }
  }
}

/// Add independent normal numbers with this standard deviation: four from each block of random bits (Box-Muller in float, at
/// most 5.8 standard deviations).
void add_noise(double deviation, Philox& random, Eigen::Map<Eigen::ArrayXf> values) {
  constexpr Eigen::Index kPairs = 256;
  using Numbers = Eigen::Array<float, kPairs, 1>;
  const auto uniform = [](std::uint32_t bits) { return (static_cast<float>(bits >> 9) + 0.5F) * 0x1p-23F; };  // above 0, below 1
  for (Eigen::Index begin = 0; begin < values.size(); begin += 2 * kPairs) {
    Numbers length, angle;
    for (Eigen::Index i = 0; i < kPairs; i += 2) {
      const std::array<std::uint32_t, 4> bits = random.block();
      length[i] = uniform(bits[0]);
      angle[i] = uniform(bits[1]);
      length[i + 1] = uniform(bits[2]);
      angle[i + 1] = uniform(bits[3]);
    }
    length = static_cast<float>(deviation) * (-2 * length.log()).sqrt();
    angle *= 2 * std::numbers::pi_v<float>;
    Eigen::Array<float, 2 * kPairs, 1> noise;
    noise << length * angle.cos(), length * angle.sin();
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

void change(const Intensities& intensities, std::span<const float> black, Philox random, View<float, 4> image) {
  const std::span<float> values(image.data(), static_cast<std::size_t>(image.size()));
  for (std::int64_t z = 0; z < image.shape(0); ++z) {
    const double own = intensities.sections.empty() ? 0 : intensities.sections[static_cast<std::size_t>(z)].blur;
    if (intensities.blur > 0 || own > 0) blur_section(std::hypot(intensities.blur, own), z, image);
  }
  if (intensities.gamma != 1) raise_to(intensities.gamma, image);
  if (intensities.gain != 1 || intensities.offset != 0) scale(intensities.gain, intensities.offset, values);
  for (std::size_t z = 0; z < intensities.sections.size(); ++z) {
    const Intensities::Section& section = intensities.sections[z];
    if (section.gain != 1) scale(section.gain, section.offset, section_of(image, static_cast<std::int64_t>(z)));
  }
  if (intensities.noise > 0) add_noise(intensities.noise, random, {image.data(), image.size()});
  for (std::size_t z = 0; z < intensities.sections.size(); ++z) {
    if (!intensities.sections[z].missing) continue;
    const std::span<float> section = section_of(image, static_cast<std::int64_t>(z));
    for (std::size_t i = 0; i < section.size(); ++i) section[i] = black[i % black.size()];
  }
}

std::vector<float> gaussian_weights(double deviation, double cut_off) {
  std::vector<double> exact;
  double sum = 0;
  for (std::int64_t k = 0; k <= static_cast<std::int64_t>(cut_off * deviation + 0.5); ++k) {
    exact.push_back(std::exp(-0.5 * static_cast<double>(k * k) / (deviation * deviation)));
    sum += k == 0 ? exact.back() : 2 * exact.back();
  }
  std::vector<float> weights;
  for (const double weight : exact) weights.push_back(static_cast<float>(weight / sum));
  return weights;
}

}  // namespace floodtide::data
