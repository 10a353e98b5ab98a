// SPDX-License-Identifier: Apache-2.0
// Compares the pointwise kernels of every level with plain loops in double. In tests with comparisons, values are small
// integers or dyadic fractions, so that rounding cannot change the result of a comparison.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/random.hpp"
#include "kernels/pointwise/dispatch.hpp"
#include "support/tolerance.hpp"

namespace floodtide::kernels::pointwise {
namespace {

struct Case {
  Isa level;
  std::int64_t count, channels;
};
std::ostream& operator<<(std::ostream& stream, const Case& one) {
  return stream << name(one.level) << ", " << one.count << " voxels, " << one.channels << " channels";
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const Isa level : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (level > processor_isa()) continue;
    for (const std::int64_t count : {1, 2, 5, 16}) {
      for (const std::int64_t channels : {16, 48}) result.push_back({level, count, channels});
    }
  }
  return result;
}

AlignedBuffer<float> normal(std::int64_t count, std::uint64_t stream) {
  AlignedBuffer<float> values(count);
  Philox random(11, stream);
  for (float& value : values.span()) value = static_cast<float>(random.normal());
  return values;
}

class Pointwise : public testing::TestWithParam<Case> {
 protected:
  const Case& here = GetParam();
  const Kernels& kernels = kernels_at(here.level);
  std::int64_t count = here.count, channels = here.channels;
  std::int64_t step = 2 * channels;  // rows of a concatenation with twice as many channels
  AlignedBuffer<float> x = normal(count * channels, 1), grad = normal(count * step, 2);
  AlignedBuffer<float> scale = normal(channels, 3), shift = normal(channels, 4);
  Affine affine{scale.data(), shift.data()};

  double passed(std::int64_t voxel, std::int64_t c) const {
    const double value = double{x[voxel * channels + c]} * double{scale[c]} + double{shift[c]};
    return value > 0 ? double{grad[voxel * step + c]} : 0.0;
  }
};

TEST_P(Pointwise, SumsAreThoseOfTheLoop) {
  AlignedBuffer<double> sums(2 * channels);
  for (double& sum : sums.span()) sum = 1;  // the kernel adds to the sums
  kernels.sums(x.data(), count, channels, sums.data());
  for (std::int64_t c = 0; c < channels; ++c) {
    double sum = 1, square = 1;
    for (std::int64_t i = 0; i < count; ++i) {
      sum += double{x[i * channels + c]};
      square += double{x[i * channels + c]} * double{x[i * channels + c]};
    }
    EXPECT_NEAR(sums[c], sum, 1e-12);
    EXPECT_NEAR(sums[channels + c], square, 1e-12);
  }
}

TEST_P(Pointwise, NormaliseScalesShiftsAndRectifies) {
  AlignedBuffer<float> out(count * step);
  kernels.normalise(x.data(), affine, count, channels, out.data(), step);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double product = double{x[i * channels + c]} * double{scale[c]}, value = product + double{shift[c]};
      const double tolerance = test::summation_tolerance<float>(2, std::abs(product) + std::abs(double{shift[c]}));
      EXPECT_NEAR(out[i * step + c], std::max(value, 0.0), tolerance);
      EXPECT_EQ(out[i * step + channels + c], 0.0F);  // other channels do not change
    }
  }
}

TEST_P(Pointwise, GradientSumsCountWhatTheReluLetThrough) {
  AlignedBuffer<double> sums(2 * channels);
  kernels.gradient_sums(x.data(), affine, grad.data(), step, count, channels, sums.data());
  for (std::int64_t c = 0; c < channels; ++c) {
    double sum = 0, product = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      sum += passed(i, c);
      product += passed(i, c) * double{x[i * channels + c]};
    }
    EXPECT_NEAR(sums[c], sum, 1e-12);
    EXPECT_NEAR(sums[channels + c], product, 1e-12);
  }
}

TEST_P(Pointwise, GradientIsAffineInGradAndInput) {
  const AlignedBuffer<float> slope = normal(channels, 5), curve = normal(channels, 6), mean = normal(channels, 7),
                             offset = normal(channels, 8);
  AlignedBuffer<float> out(count * channels);
  kernels.gradient(x.data(), affine, {slope.data(), curve.data(), mean.data(), offset.data()}, grad.data(), step, count,
                   channels, out.data());
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double direct = double{slope[c]} * passed(i, c);
      const double centred = double{x[i * channels + c]} - double{mean[c]}, curved = double{curve[c]} * centred;
      const double magnitude = std::abs(direct) + std::abs(curved) + std::abs(double{offset[c]}) +
                               std::abs(double{curve[c]}) * (std::abs(double{mean[c]}) + std::abs(double{x[i * channels + c]}));
      EXPECT_NEAR(out[i * channels + c], direct + curved + double{offset[c]}, test::summation_tolerance<float>(4, magnitude));
    }
  }
}

TEST_P(Pointwise, MaxPoolGivesItsGradientToTheFirstOfEqualVoxels) {
  constexpr std::int64_t pool = 2;
  const std::int64_t row_floats = count * pool * channels;
  std::array<AlignedBuffer<float>, 3> rows{normal(row_floats, 9), normal(row_floats, 10), normal(row_floats, 11)};
  for (auto& row : rows) {
    for (float& value : row.span()) value = std::round(value);  // so that many values are equal
  }
  for (float& value : scale.span()) value = value < 0 ? -2.0F : 2.0F;
  for (float& value : shift.span()) value = std::round(value);
  const float* const inputs[] = {rows[0].data(), rows[1].data(), rows[2].data()};
  AlignedBuffer<float> pooled(count * channels);
  kernels.max_pool(inputs, affine, 3, pool, count, channels, pooled.data());
  std::array<AlignedBuffer<float>, 3> grads{AlignedBuffer<float>(row_floats), AlignedBuffer<float>(row_floats),
                                            AlignedBuffer<float>(row_floats)};
  for (auto& row : grads) std::ranges::fill(row.span(), 3.0F);  // the kernel adds to the gradients
  float* const outputs[] = {grads[0].data(), grads[1].data(), grads[2].data()};
  kernels.max_pool_gradient(inputs, affine, 3, pool, count, channels, grad.data(), outputs);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto normalised = [&](std::size_t row, std::int64_t j) {
        return rows[row][(i * pool + j) * channels + c] * scale[c] + shift[c];
      };
      float largest = normalised(0, 0);
      for (std::size_t row = 0; row < 3; ++row) {
        for (std::int64_t j = 0; j < pool; ++j) largest = std::max(largest, normalised(row, j));
      }
      EXPECT_EQ(pooled[i * channels + c], std::max(largest, 0.0F));
      bool given = false;
      for (std::size_t row = 0; row < 3; ++row) {
        for (std::int64_t j = 0; j < pool; ++j) {
          const bool first = !given && normalised(row, j) == largest;
          EXPECT_EQ(grads[row][(i * pool + j) * channels + c], first ? 3.0F + grad[i * channels + c] : 3.0F);
          given = given || first;
        }
      }
    }
  }
}

TEST_P(Pointwise, MaxPoolOfANaNIsNaN) {
  constexpr std::int64_t pool = 2, row_count = 3;
  for (std::int64_t place = 0; place < row_count * pool; ++place) {
    std::array<AlignedBuffer<float>, row_count> rows{normal(count * pool * channels, 9), normal(count * pool * channels, 10),
                                                     normal(count * pool * channels, 11)};
    rows[static_cast<std::size_t>(place / pool)][place % pool * channels] = std::numeric_limits<float>::quiet_NaN();
    const float* const inputs[] = {rows[0].data(), rows[1].data(), rows[2].data()};
    AlignedBuffer<float> pooled(count * channels);
    kernels.max_pool(inputs, affine, row_count, pool, count, channels, pooled.data());
    EXPECT_TRUE(std::isnan(pooled[0])) << "NaN in place " << place;
    EXPECT_EQ(std::ranges::count_if(pooled.span(), [](float value) { return std::isnan(value); }), 1);
  }
}

TEST_P(Pointwise, HeadAndItsGradientAreAdjoint) {
  constexpr std::int64_t classes = 3;
  const AlignedBuffer<float> weights = normal(classes * channels, 12), logit_grad = normal(count * classes, 13);
  const float biases[classes] = {1, 2, 3};
  std::vector<float> logits(static_cast<std::size_t>(count * classes));
  kernels.head(x.data(), count, channels, classes, weights.data(), biases, logits.data());
  AlignedBuffer<float> out_grad(count * channels);
  AlignedBuffer<double> weight_sums(classes * channels);
  kernels.head_gradient(x.data(), count, channels, classes, weights.data(), logit_grad.data(), out_grad.data(),
                        weight_sums.data());
  double logits_dot = 0, x_dot = 0, weights_dot = 0, magnitude = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t k = 0; k < classes; ++k) {
      double sum = double{biases[k]}, size = std::abs(sum);
      for (std::int64_t c = 0; c < channels; ++c) {
        const double product = double{x[i * channels + c]} * double{weights[k * channels + c]};
        sum += product;
        size += std::abs(product);
      }
      const float got = logits[static_cast<std::size_t>(i * classes + k)];
      EXPECT_NEAR(got, sum, test::summation_tolerance<float>(channels, size));
      logits_dot += (sum - double{biases[k]}) * double{logit_grad[i * classes + k]};
      magnitude += size * std::abs(double{logit_grad[i * classes + k]});
    }
    for (std::int64_t c = 0; c < channels; ++c) x_dot += double{x[i * channels + c]} * double{out_grad[i * channels + c]};
  }
  for (std::int64_t i = 0; i < classes * channels; ++i) weights_dot += double{weights[i]} * weight_sums[i];
  EXPECT_NEAR(x_dot, logits_dot, test::summation_tolerance<float>(classes + 1, magnitude));
  EXPECT_NEAR(weights_dot, logits_dot, test::summation_tolerance<float>(2, magnitude));
}

INSTANTIATE_TEST_SUITE_P(Levels, Pointwise, testing::ValuesIn(cases()));

}  // namespace
}  // namespace floodtide::kernels::pointwise
