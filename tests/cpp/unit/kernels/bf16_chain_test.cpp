// SPDX-License-Identifier: Apache-2.0
#include "kernels/bf16_chain/bf16_chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "floodtide/base/parallel.hpp"
#include "unit/kernels/conv3d_fixture.hpp"

namespace floodtide::kernels {

namespace bf16 {
extern const Kernels kAmxEmulated;
}

namespace {

using Rounded = AlignedBuffer<std::uint16_t>;
using test::copy_of;

constexpr double kRounded = 3e-7;  // error of sums of products of bfloat16 numbers
constexpr double kAll = 3e-3;      // the same with rounding of the operands
constexpr float kUntouched = 12345;

std::uint16_t rounded(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}
float widened(std::uint16_t value) { return std::bit_cast<float>(std::uint32_t{value} << 16); }

/// Return an activation for the kernels, made without them.
Rounded rounded_activation(const AlignedBuffer<float>& from, const Conv3dShape& shape) {
  Rounded to(Bf16Chain::activation_size({shape.z, shape.y, shape.x}, shape.in_channels));
  for (std::int64_t i = 0; i < from.size(); ++i) to[i] = rounded(from[i]);
  return to;
}
void round_in_place(std::span<float> values) {
  for (float& value : values) value = widened(rounded(value));
}

/// Return a case whose operands are bfloat16 numbers already, if `exact`.
test::Conv3dCase case_of(const Conv3dShape& shape, bool exact) {
  test::Conv3dCase c = test::make_case(shape);
  if (exact) {
    for (const std::span<float> values : {c.input.span(), c.output_grad.span(), std::span<float>(c.weights)}) {
      round_in_place(values);
    }
  }
  return c;
}

double relative_error(const float* found, const std::vector<double>& expected) {
  double error = 0, square = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = found[static_cast<std::int64_t>(i)] - expected[i];
    error += difference * difference;
    square += expected[i] * expected[i];
  }
  return std::sqrt(error / square);
}

/// Calls body(chain, case, greatest error) for all kernels of this processor and the emulated ones. Only small cases round.
template <class Body>
void for_chains(const Conv3dShape& shape, Body body) {
  std::vector<const bf16::Kernels*> all{&bf16::kAmxEmulated};
  if (Bf16Chain::unsupported(32, processor_isa()).empty()) all.push_back(Bf16Chain::kernels_of(processor_isa()));
  for (const bf16::Kernels* kernels : all) {
    const Bf16Chain chain({shape.z, shape.y, shape.x}, shape.in_channels, *kernels);
    body(chain, case_of(shape, true), kRounded);
    if (shape.x < 20) body(chain, case_of(shape, false), kAll);
  }
}

class Bf16ChainShapes : public testing::TestWithParam<Conv3dShape> {};

TEST_P(Bf16ChainShapes, ConvolutionsEqualTheReference) {
  for_chains(GetParam(), [](const Bf16Chain& chain, const test::Conv3dCase& c, double most) {
    const Rounded input = rounded_activation(c.input, c.shape);
    Bf16Chain::Weights weights;
    chain.pack(c.weights.data(), weights);
    std::vector<double> expected(static_cast<std::size_t>(c.output_size()));
    const auto reference = [&](const double* residual) {
      reference::conv3d_forward(c.shape, test::widened(c.input).data(), Activation::none, test::widened(c.weights).data(),
                                test::widened(c.bias).data(), residual, false, expected.data());
    };
    AlignedBuffer<float> out(c.output_size());
    chain.convolve(input.data(), weights, {.bias = c.bias.data(), .out = out.data()});
    reference(nullptr);
    EXPECT_LT(relative_error(out.data(), expected), most);

    AlignedBuffer<float> stream = copy_of(c.residual);
    Rounded rectified(input.size());
    chain.convolve(input.data(), weights,
                   {.bias = c.bias.data(),
                    .residual = stream.data(),
                    .out = stream.data(),
                    .out_rounded = rectified.data(),
                    .rectify = true});
    reference(test::widened(c.residual).data());
    EXPECT_LT(relative_error(stream.data(), expected), most);
    for (std::int64_t i = 0; i < stream.size(); ++i) ASSERT_EQ(rectified[i], rounded(std::max(stream[i], 0.0F)));

    Rounded alone(input.size());
    chain.convolve(input.data(), weights, {.bias = c.bias.data(), .out_rounded = alone.data()});
    for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(alone[i], rounded(out[i]));
  });
}

TEST_P(Bf16ChainShapes, TransposedConvolutionsEqualTheReference) {
  for_chains(GetParam(), [](const Bf16Chain& chain, const test::Conv3dCase& c, double most) {
    const Rounded grad = rounded_activation(c.output_grad, c.shape), mask = rounded_activation(c.residual, c.shape);
    Bf16Chain::Weights weights;
    Workspace workspace;
    chain.pack_transposed(c.weights.data(), weights, workspace);
    std::vector<double> expected = test::widened(c.input_grad);
    const auto reference = [&](bool accumulate) {
      reference::conv3d_backward_data(c.shape, test::widened(c.output_grad).data(), test::widened(c.weights).data(),
                                      test::widened(c.residual).data(), accumulate, expected.data());
    };
    AlignedBuffer<float> out = copy_of(c.input_grad);
    Rounded both(grad.size()), alone(grad.size());
    chain.convolve(grad.data(), weights,
                   {.mask = mask.data(), .residual = out.data(), .out = out.data(), .out_rounded = both.data()});
    reference(true);
    EXPECT_LT(relative_error(out.data(), expected), most);
    for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(both[i], rounded(out[i]));
    chain.convolve(grad.data(), weights, {.mask = mask.data(), .out = out.data()});
    chain.convolve(grad.data(), weights, {.mask = mask.data(), .out_rounded = alone.data()});
    reference(false);
    EXPECT_LT(relative_error(out.data(), expected), most);
    for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(alone[i], rounded(out[i]));
  });
}

TEST_P(Bf16ChainShapes, GradientsByWeightsEqualTheReference) {
  for_chains(GetParam(), [](const Bf16Chain& chain, const test::Conv3dCase& c, double most) {
    std::vector<float> weights(c.weights.size(), 1.0F), bias(c.bias.size(), 2.0F);  // gradients are added
    Workspace workspace;
    std::ranges::fill(std::span(workspace.floats(1 << 20), 1 << 20), kUntouched);
    chain.backward_weights(rounded_activation(c.input, c.shape).data(), rounded_activation(c.output_grad, c.shape).data(),
                           weights.data(), bias.data(), workspace);
    std::vector<double> expected(weights.size(), 1.0), expected_bias(bias.size(), 2.0);
    reference::conv3d_backward_weights(c.shape, test::widened(c.input).data(), Activation::none,
                                       test::widened(c.output_grad).data(), expected.data(), expected_bias.data());
    EXPECT_LT(relative_error(weights.data(), expected), most);
    EXPECT_LT(relative_error(bias.data(), expected_bias), most);
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, Bf16ChainShapes,
                         testing::Values(Conv3dShape{1, 1, 1, 32, 32}, Conv3dShape{1, 2, 3, 32, 32},
                                         Conv3dShape{2, 1, 15, 32, 32}, Conv3dShape{1, 1, 16, 32, 32},
                                         Conv3dShape{3, 1, 34, 32, 32}, Conv3dShape{9, 3, 9, 32, 32},
                                         Conv3dShape{2, 5, 32, 32, 32}, Conv3dShape{3, 4, 7, 64, 64},
                                         Conv3dShape{1, 37, 35, 32, 32}, Conv3dShape{2, 2, 5, 96, 96}));

TEST(Bf16Chain, RoundsToNearestEven) {
  const Conv3dShape shape{2, 3, 5, 32, 32};
  for_chains(shape, [&](const Bf16Chain& chain, const test::Conv3dCase& c, double) {
    Rounded out(Bf16Chain::activation_size({shape.z, shape.y, shape.x}, 32));
    chain.round(c.input.data(), out.data());
    for (std::int64_t i = 0; i < c.input.size(); ++i) ASSERT_EQ(out[i], rounded(c.input[i]));
  });
}

TEST(Bf16Chain, BitsDoNotDependOnThreads) {
  const Conv3dShape shape{11, 7, 9, 32, 32};
  const int before = num_threads();
  for_chains(shape, [&](const Bf16Chain& chain, const test::Conv3dCase& c, double) {
    const Rounded input = rounded_activation(c.input, shape), grad = rounded_activation(c.output_grad, shape);
    Bf16Chain::Weights weights;
    chain.pack(c.weights.data(), weights);
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 4}) {
      set_num_threads(threads);
      AlignedBuffer<float> out(c.output_size());
      std::vector<float> gradients(c.weights.size() + c.bias.size());
      Workspace workspace;
      chain.convolve(input.data(), weights, {.bias = c.bias.data(), .out = out.data()});
      chain.backward_weights(input.data(), grad.data(), gradients.data(), gradients.data() + c.weights.size(), workspace);
      gradients.insert(gradients.end(), out.data(), out.data() + out.size());
      if (first.empty()) first = gradients;
      EXPECT_EQ(gradients, first) << threads << " threads";
    }
  });
  set_num_threads(before);
}

TEST(Bf16Chain, SaysWhatIsMissing) {
  EXPECT_EQ(Bf16Chain::unsupported(32, Isa::avx2), "needs AMX, the level is avx2");
  if (!Bf16Chain::unsupported(32, processor_isa()).empty()) GTEST_SKIP() << "this processor has no AMX";
  EXPECT_EQ(Bf16Chain::unsupported(48, processor_isa()), "48 feature maps, expected a multiple of 32");
}

}  // namespace
}  // namespace floodtide::kernels
