// SPDX-License-Identifier: Apache-2.0
#include "floodtide/data/intensity.hpp"

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
  const std::span<float> values(image.data(), static_cast<std::size_t>(image.size()));
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    float low = image.data()[channel], high = low;
    for (std::size_t i = static_cast<std::size_t>(channel); i < values.size(); i += static_cast<std::size_t>(channels)) {
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
    const float range = high - low;
    if (range <= 0) continue;
    for (std::size_t i = static_cast<std::size_t>(channel); i < values.size(); i += static_cast<std::size_t>(channels)) {
      values[i] = low + range * std::pow((values[i] - low) / range, static_cast<float>(exponent));
    }
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
/// most 6.8 standard deviations).
void add_noise(double deviation, Philox& random, std::span<float> values) {
  constexpr float kUnit = 0x1p-32F;
  const auto factor = static_cast<float>(deviation);
  for (std::size_t i = 0; i < values.size();) {
    const std::array<std::uint32_t, 4> bits = random.block();
    for (std::size_t pair = 0; pair < 4 && i < values.size(); pair += 2) {
      const float uniform = (static_cast<float>(bits[pair]) + 0.5F) * kUnit;  // above 0, at most 1
      const float angle = 2 * std::numbers::pi_v<float> * (static_cast<float>(bits[pair + 1]) * kUnit);
      const float radius = factor * std::sqrt(-2 * std::log(uniform));
      values[i++] += radius * std::cos(angle);
      if (i < values.size()) values[i++] += radius * std::sin(angle);
    }
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
  if (intensities.noise > 0) add_noise(intensities.noise, random, values);
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
