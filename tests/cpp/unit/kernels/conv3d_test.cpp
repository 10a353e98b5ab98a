// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "support/tolerance.hpp"
#include "unit/kernels/conv3d_fixture.hpp"

namespace floodtide::kernels {
namespace direct {
extern const DirectKernels kAvx512Emulated, kAvx512NarrowEmulated;
}
namespace winograd {
extern const Kernels kAvx512Emulated;
}
namespace {

using floodtide::test::summation_tolerance;
using test::Conv3dCase;
using test::copy_of;
using test::make_case;
using test::widened;

/// Return the shapes to test.
///
/// Sizes: all x sizes around the register blocks (5, 6 and 11 voxels), non-cubic volumes, rows longer than the rectified copy
/// of the kernels, and Winograd tiles that end at the end of the volume or extend beyond it. Channels: few channels, a smaller
/// last group of output channels, and more channels than the direct kernels support. All kernel sizes are included.
std::vector<Conv3dShape> all_shapes() {
  std::vector<Conv3dShape> shapes;
  for (std::int64_t x = 1; x <= 13; ++x) shapes.push_back({2, 2, x, 32, 32});
  for (const std::int64_t x : {1, 2, 8, 11, 12, 16, 17}) shapes.push_back({2, 2, x, 8, 8});
  shapes.push_back({3, 5, 17, 2, 8});
  shapes.push_back({3, 2, 5, 7, 3});
  shapes.push_back({1, 1, 1, 1, 1});
  shapes.push_back({3, 5, 7, 2, 32});
  shapes.push_back({5, 4, 3, 32, 1, 1, 1, 1});
  shapes.push_back({4, 5, 9, 13, 41});
  shapes.push_back({2, 3, 33, 45, 16});
  shapes.push_back({3, 2, 33, 32, 32});
  shapes.push_back({1, 2, 70, 64, 16});
  shapes.push_back({1, 2, 6, 512, 7});
  shapes.push_back({2, 1, 3, 260, 9});
  shapes.push_back({1, 1, 3, 520, 9});
  shapes.push_back({1, 1, 1, 16, 16});
  shapes.push_back({7, 8, 9, 16, 16});
  shapes.push_back({6, 4, 10, 48, 32});
  shapes.push_back({3, 4, 2, 16, 80});
  shapes.push_back({2, 5, 70, 32, 48, 1, 3, 3});   // rows with more tiles than a block of them
  shapes.push_back({1, 13, 40, 64, 80, 1, 3, 3});  // many weights and few tiles: backward-weights goes point by point
  for (const std::int64_t z : {1, 3}) {
    for (const std::int64_t y : {1, 3}) {
      for (const std::int64_t x : {1, 3}) {
        shapes.push_back({4, 3, 8, 6, 5, z, y, x});
        shapes.push_back({4, 3, 8, 21, 40, z, y, x});
        shapes.push_back({4, 3, 8, 32, 48, z, y, x});
      }
    }
  }
  return shapes;
}

std::string label(const Conv3dShape& shape, std::string_view kernel) {
  return str_cat(kernel, ": ", shape.z, 'x', shape.y, 'x', shape.x, ", kernel ", shape.kernel_z, 'x', shape.kernel_y, 'x',
                 shape.kernel_x, ", ", shape.in_channels, " to ", shape.out_channels);
}

std::unique_ptr<Conv3dPlan> make_emulated(const Conv3dShape& shape) {
  return make_direct_plan(shape, {&direct::kAvx512Emulated, &direct::kAvx512NarrowEmulated});
}
std::unique_ptr<Conv3dPlan> make_emulated_winograd(const Conv3dShape& shape) {
  return make_winograd_plan(shape, winograd::kAvx512Emulated);
}

/// Calls body(candidate) for every kernel that supports this machine and the shape, and for the emulated AVX-512 kernels.
template <class Body>
void for_each_kernel_of(const Conv3dShape& shape, Body body) {
  std::vector<Conv3dCandidate> candidates = conv3d_candidates();
  candidates.push_back(
      {"avx512_direct, emulated", Isa::generic, Compute::fp32_direct, &direct_unsupported, nullptr, &make_emulated});
  candidates.push_back(
      {"avx512, emulated, winograd", Isa::generic, Compute::fp32, &winograd_unsupported, nullptr, &make_emulated_winograd});
  for (const Conv3dCandidate& candidate : candidates) {
    if (candidate.level > processor_isa() || !candidate.unsupported(shape).empty()) continue;
    SCOPED_TRACE(label(shape, candidate.name));
    body(candidate);
  }
}
template <class Body>
void for_each_kernel(Body body) {
  for (const Conv3dShape& shape : all_shapes()) {
    const Conv3dCase c = make_case(shape);
    for_each_kernel_of(shape, [&](const Conv3dCandidate& kernel) { body(c, kernel); });
  }
}

/// Calls body(c, for_each) for every shape, where for_each(visit) visits the kernels.
template <class Body>
void for_each_case(Body body) {
  for (const Conv3dShape& shape : all_shapes()) {
    body(make_case(shape), [&](auto visit) { for_each_kernel_of(shape, visit); });
  }
}

Workspace& workspace() {
  static Workspace of_all_passes;
  return of_all_passes;
}

std::unique_ptr<Conv3dPlan> planned(const Conv3dCase& c, const Conv3dCandidate& kernel) {
  std::unique_ptr<Conv3dPlan> plan = kernel.make(c.shape);
  plan->set_weights(c.weights.data(), c.bias.data(), Passes::all, workspace());
  return plan;
}

bool is_winograd(const Conv3dCandidate& kernel) { return kernel.name.ends_with("winograd"); }

/// Return the ratio of two error bounds: for sums of products of transformed values, and for direct convolution. For each axis
/// of F(3, 3) it is the largest row of |output| (|weights| |w| . |input| |d|), divided by the three kernel elements: 16 / 3.
double amplification(const Conv3dCandidate& kernel, const Conv3dShape& shape) {
  if (!is_winograd(kernel)) return 1;
  return std::pow(16.0 / 3, (shape.kernel_z == 3) + (shape.kernel_y == 3) + (shape.kernel_x == 3));
}

/// Expects each value to be within the summation bound. The reference computes the magnitudes of this bound from absolute
/// values. A transform mixes neighbouring voxels, so that for Winograd the largest magnitude of all voxels is used.
template <class Values>
void expect_close(const Values& got, const std::vector<double>& expected, const std::vector<double>& magnitudes,
                  std::int64_t length, const Conv3dCandidate& kernel, const Conv3dShape& shape) {
  ASSERT_EQ(static_cast<std::size_t>(got.size()), expected.size());
  const double largest = *std::ranges::max_element(magnitudes) * amplification(kernel, shape);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double magnitude = is_winograd(kernel) && magnitudes[i] > 0 ? largest : magnitudes[i];
    const double tolerance = summation_tolerance<float>(length, magnitude);
    if (std::abs(static_cast<double>(got.data()[i]) - expected[i]) <= tolerance) continue;  // faster than the macro
    FAIL() << "element " << i << " is " << got.data()[i] << ", expected " << expected[i] << " within " << tolerance;
  }
}

TEST(Conv3dKernels, ForwardEqualsReference) {
  for_each_case([](const Conv3dCase& c, auto for_each) {
    const Conv3dShape& shape = c.shape;
    for (const Activation on_input : {Activation::none, Activation::relu}) {
      std::vector<double> sums(static_cast<std::size_t>(c.output_size()));
      std::vector<double> sum_sizes(sums.size());
      reference::conv3d_forward<double>(c.shape, widened(c.input).data(), on_input, widened(c.weights).data(),
                                        widened(c.bias).data(), nullptr, false, sums.data());
      reference::conv3d_forward<double>(c.shape, widened(c.input, true).data(), on_input, widened(c.weights, true).data(),
                                        widened(c.bias, true).data(), nullptr, false, sum_sizes.data());
      for (const auto& [residual, relu_output] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
        std::vector<double> expected = sums;
        std::vector<double> magnitudes = sum_sizes;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const double added = residual ? static_cast<double>(c.residual.data()[i]) : 0.0;
          expected[i] = relu_output ? std::max(expected[i] + added, 0.0) : expected[i] + added;
          magnitudes[i] += std::abs(added);
        }
        for_each([&](const Conv3dCandidate& kernel) {
          AlignedBuffer<float> out(c.output_size());
          planned(c, kernel)->forward(c.input.data(), on_input, residual ? c.residual.data() : nullptr, relu_output, out.data(),
                                      workspace());
          // The halo and padding channels have magnitude zero, and must therefore be exactly zero.
          expect_close(out, expected, magnitudes, c.shape.taps() * c.shape.in_channels + 2, kernel, shape);
        });
      }
    }
  });
}

TEST(Conv3dKernels, ForwardAddsAResidualInPlace) {
  for_each_kernel([](const Conv3dCase& c, const Conv3dCandidate& kernel) {
    const auto conv = planned(c, kernel);
    AlignedBuffer<float> apart(c.output_size());
    AlignedBuffer<float> in_place = copy_of(c.residual);
    conv->forward(c.input.data(), Activation::relu, c.residual.data(), false, apart.data(), workspace());
    conv->forward(c.input.data(), Activation::relu, in_place.data(), false, in_place.data(), workspace());
    EXPECT_TRUE(std::ranges::equal(apart.span(), in_place.span()));
  });
}

TEST(Conv3dKernels, BackwardDataEqualsReference) {
  for_each_case([](const Conv3dCase& c, auto for_each) {
    const Conv3dShape& shape = c.shape;
    for (const bool masked : {false, true}) {
      for (const bool accumulate : {false, true}) {
        std::vector<double> expected = widened(c.input_grad);
        std::vector<double> magnitudes = widened(c.input_grad, true);
        const std::vector<double> mask = widened(c.input);
        reference::conv3d_backward_data(c.shape, widened(c.output_grad).data(), widened(c.weights).data(),
                                        masked ? mask.data() : nullptr, accumulate, expected.data());
        reference::conv3d_backward_data(c.shape, widened(c.output_grad, true).data(), widened(c.weights, true).data(),
                                        masked ? mask.data() : nullptr, accumulate, magnitudes.data());
        for_each([&](const Conv3dCandidate& kernel) {
          AlignedBuffer<float> out = copy_of(c.input_grad);
          planned(c, kernel)->backward_data(c.output_grad.data(), masked ? c.input.data() : nullptr, accumulate, out.data(),
                                            workspace());
          expect_close(out, expected, magnitudes, c.shape.taps() * c.shape.out_channels + 1, kernel, shape);
        });
      }
    }
  });
}

TEST(Conv3dKernels, BackwardWeightsEqualsReferenceAndAdds) {
  for_each_case([](const Conv3dCase& c, auto for_each) {
    const Conv3dShape& shape = c.shape;
    const std::int64_t voxels = c.shape.z * c.shape.y * c.shape.x;
    for (const Activation on_input : {Activation::none, Activation::relu}) {
      // backward_weights adds to the gradients. Their initial values are here the weights and biases.
      std::vector<double> expected = widened(c.weights), magnitudes = widened(c.weights, true);
      std::vector<double> expected_bias = widened(c.bias), bias_magnitudes = widened(c.bias, true);
      reference::conv3d_backward_weights(c.shape, widened(c.input).data(), on_input, widened(c.output_grad).data(),
                                         expected.data(), expected_bias.data());
      reference::conv3d_backward_weights(c.shape, widened(c.input, true).data(), on_input, widened(c.output_grad, true).data(),
                                         magnitudes.data(), bias_magnitudes.data());
      for_each([&](const Conv3dCandidate& kernel) {
        std::vector<float> weight_grad = c.weights;
        std::vector<float> bias_grad = c.bias;
        planned(c, kernel)->backward_weights(c.input.data(), on_input, c.output_grad.data(), weight_grad.data(),
                                             bias_grad.data(), workspace());
        expect_close(weight_grad, expected, magnitudes, voxels + 1, kernel, shape);
        expect_close(bias_grad, expected_bias, bias_magnitudes, voxels + 1, kernel, shape);
      });
    }
  });
}

/// Return the sum of a[i] * b[i] in double.
template <class A, class B>
double dot(const A& a, const B& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.size()); ++i) {
    sum += static_cast<double>(a.data()[i]) * static_cast<double>(b.data()[i]);
  }
  return sum;
}

TEST(Conv3dKernels, PassesAreAdjointToEachOther) {
  for_each_case([](const Conv3dCase& c, auto for_each) {
    const Conv3dShape& shape = c.shape;
    const std::vector<float> no_bias(c.bias.size());  // without biases, the output is linear in the input and in the weights
    std::vector<double> magnitudes(static_cast<std::size_t>(c.output_size()));
    reference::conv3d_forward<double>(c.shape, widened(c.input, true).data(), Activation::none, widened(c.weights, true).data(),
                                      widened(no_bias).data(), nullptr, false, magnitudes.data());
    const double magnitude = dot(magnitudes, widened(c.output_grad, true));
    // The tolerance uses the longest of the three sums in float: per output, per input and per weight.
    const std::int64_t voxels = c.shape.z * c.shape.y * c.shape.x;
    const double tolerance =
        2.0 * summation_tolerance<float>(std::max(c.shape.taps() * std::max(c.shape.in_channels, c.shape.out_channels), voxels),
                                         magnitude);
    for_each([&](const Conv3dCandidate& kernel) {
      const auto conv = planned(c, kernel);
      conv->set_weights(c.weights.data(), no_bias.data(), Passes::all, workspace());
      AlignedBuffer<float> out(c.output_size());
      AlignedBuffer<float> input_grad(c.input_size());
      std::vector<float> weight_grad(c.weights.size());
      std::vector<float> bias_grad(c.bias.size());
      conv->forward(c.input.data(), Activation::none, nullptr, false, out.data(), workspace());
      conv->backward_data(c.output_grad.data(), nullptr, false, input_grad.data(), workspace());
      conv->backward_weights(c.input.data(), Activation::none, c.output_grad.data(), weight_grad.data(), bias_grad.data(),
                             workspace());
      EXPECT_NEAR(dot(c.input, input_grad), dot(out, c.output_grad), tolerance * amplification(kernel, shape));
      EXPECT_NEAR(dot(c.weights, weight_grad), dot(out, c.output_grad), tolerance * amplification(kernel, shape));
    });
  });
}

/// Return the root mean square of the difference, divided by that of the expected values.
template <class Values>
double relative_rms(const Values& got, const std::vector<double>& expected) {
  double difference = 0, total = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(got.data()[i]) - expected[i], 2);
    total += expected[i] * expected[i];
  }
  return std::sqrt(difference / total);
}

/// Results of the passes.
struct Passes64 {
  std::vector<double> out, input_grad, weight_grad, bias_grad;
};

Passes64 reference_passes(const Conv3dCase& c) {
  Passes64 result{std::vector<double>(static_cast<std::size_t>(c.output_size())),
                  std::vector<double>(static_cast<std::size_t>(c.input_size())), std::vector<double>(c.weights.size()),
                  std::vector<double>(c.bias.size())};
  const double* none = nullptr;
  reference::conv3d_forward<double>(c.shape, widened(c.input).data(), Activation::none, widened(c.weights).data(),
                                    widened(c.bias).data(), none, false, result.out.data());
  reference::conv3d_backward_data<double>(c.shape, widened(c.output_grad).data(), widened(c.weights).data(), none, false,
                                          result.input_grad.data());
  reference::conv3d_backward_weights<double>(c.shape, widened(c.input).data(), Activation::none, widened(c.output_grad).data(),
                                             result.weight_grad.data(), result.bias_grad.data());
  return result;
}

Passes64 passes_of(const Conv3dCase& c, const Conv3dCandidate& kernel) {
  const auto conv = planned(c, kernel);
  AlignedBuffer<float> out(c.output_size()), input_grad(c.input_size());
  std::vector<float> weight_grad(c.weights.size()), bias_grad(c.bias.size());
  conv->forward(c.input.data(), Activation::none, nullptr, false, out.data(), workspace());
  conv->backward_data(c.output_grad.data(), nullptr, false, input_grad.data(), workspace());
  conv->backward_weights(c.input.data(), Activation::none, c.output_grad.data(), weight_grad.data(), bias_grad.data(),
                         workspace());
  return {widened(out), widened(input_grad), widened(weight_grad), widened(bias_grad)};
}

void expect_alike(const Passes64& got, const Passes64& expected, double most) {
  EXPECT_LT(relative_rms(got.out, expected.out), most);
  EXPECT_LT(relative_rms(got.input_grad, expected.input_grad), most);
  // These gradients are sums over voxels, which have more terms.
  EXPECT_LT(relative_rms(got.weight_grad, expected.weight_grad), 3 * most);
  EXPECT_LT(relative_rms(got.bias_grad, expected.bias_grad), 3 * most);
}

constexpr double kFloatErrors = 1.5e-6;  // measured with F(3, 3): output 7e-7, input gradient 7e-7, weight gradient 2e-6

TEST(Conv3dKernels, ErrorsOfTransformedProductsAreThoseOfFloats) {
  const Conv3dCase c = make_case({9, 10, 12, 32, 32});
  const Passes64 expected = reference_passes(c);
  for_each_kernel_of(c.shape,
                     [&](const Conv3dCandidate& kernel) { expect_alike(passes_of(c, kernel), expected, kFloatErrors); });
}

TEST(Conv3dKernels, TilesCoverAnyExtent) {
  for (std::int64_t extent = 1; extent <= 40; ++extent) {
    for (const Conv3dShape& shape : {Conv3dShape{extent, 3, 4, 16, 16},
                                     {3, extent, 2, 16, 16},
                                     {4, 3, extent, 16, 16},
                                     {2, extent, 5, 16, 16, 1, 3, 3},
                                     {2, 5, extent, 16, 16, 1, 3, 3}}) {
      const Conv3dCase c = make_case(shape);
      const Passes64 expected = reference_passes(c);
      for_each_kernel_of(shape, [&](const Conv3dCandidate& kernel) {
        if (is_winograd(kernel)) expect_alike(passes_of(c, kernel), expected, 2 * kFloatErrors);
      });
    }
  }
}

TEST(Conv3dKernels, LargeFieldsOfViewAgreeWithDirectConvolution) {
  for (const Conv3dShape& shape : {Conv3dShape{49, 49, 49, 16, 16}, {41, 41, 21, 32, 16}, {65, 65, 65, 16, 16}}) {
    const Conv3dCase c = make_case(shape);
    std::optional<Passes64> direct;
    for (const Conv3dCandidate& kernel : conv3d_candidates()) {
      if (kernel.name.ends_with("direct") && kernel.level <= processor_isa() && !direct) direct = passes_of(c, kernel);
    }
    for (const Conv3dCandidate& kernel : conv3d_candidates()) {
      if (!is_winograd(kernel) || kernel.level > processor_isa()) continue;
      SCOPED_TRACE(label(shape, kernel.name));
      const Passes64 got = passes_of(c, kernel);
      EXPECT_LT(relative_rms(got.out, direct->out), 2 * kFloatErrors);
      EXPECT_LT(relative_rms(got.input_grad, direct->input_grad), 2 * kFloatErrors);
      EXPECT_LT(relative_rms(got.weight_grad, direct->weight_grad), 10 * kFloatErrors);  // `direct` adds 1e5 terms in sequence
    }
  }
}

TEST(Conv3dKernels, ResultsDoNotDependOnTheNumberOfThreads) {
  const int before = num_threads();
  for_each_kernel([](const Conv3dCase& c, const Conv3dCandidate& kernel) {
    const auto conv = planned(c, kernel);
    std::vector<float> first;
    for (const int threads : {1, 2, 4}) {
      set_num_threads(threads);
      AlignedBuffer<float> out(c.output_size());
      AlignedBuffer<float> input_grad(c.input_size());
      std::vector<float> weight_grad(c.weights.size());
      std::vector<float> bias_grad(c.bias.size());
      conv->forward(c.input.data(), Activation::relu, nullptr, false, out.data(), workspace());
      conv->backward_data(c.output_grad.data(), nullptr, false, input_grad.data(), workspace());
      conv->backward_weights(c.input.data(), Activation::relu, c.output_grad.data(), weight_grad.data(), bias_grad.data(),
                             workspace());
      std::vector<float> all(out.span().begin(), out.span().end());
      all.insert(all.end(), input_grad.span().begin(), input_grad.span().end());
      all.insert(all.end(), weight_grad.begin(), weight_grad.end());
      all.insert(all.end(), bias_grad.begin(), bias_grad.end());
      if (first.empty()) first = all;
      ASSERT_EQ(all, first) << threads << " threads";
    }
  });
  set_num_threads(before);
}

TEST(Conv3dKernels, HaloIsNeverWritten) {
  for_each_kernel([](const Conv3dCase& c, const Conv3dCandidate& kernel) {
    const auto conv = planned(c, kernel);
    AlignedBuffer<float> out(c.output_size());
    AlignedBuffer<float> input_grad(c.input_size());
    std::ranges::fill(out.span(), -7.0F);
    std::ranges::fill(input_grad.span(), -7.0F);
    conv->forward(c.input.data(), Activation::none, nullptr, true, out.data(), workspace());
    conv->backward_data(c.output_grad.data(), nullptr, false, input_grad.data(), workspace());
    for (const auto& [buffer, channels] : {std::pair{&out, c.shape.stored_out()}, {&input_grad, c.shape.stored_in()}}) {
      std::vector<bool> interior(static_cast<std::size_t>(buffer->size()));
      for (std::int64_t z = 0; z < c.shape.z; ++z) {
        for (std::int64_t y = 0; y < c.shape.y; ++y) {
          for (std::int64_t i = 0; i < c.shape.x * channels; ++i) {
            interior[static_cast<std::size_t>(activation_offset(c.shape, channels, z, y, 0) + i)] = true;
          }
        }
      }
      for (std::size_t i = 0; i < interior.size(); ++i) {
        if (interior[i]) continue;
        ASSERT_EQ(buffer->data()[i], -7.0F) << "element " << i;
      }
    }
  });
}

TEST(Conv3dKernels, PassesAllocateNothing) {
  for_each_kernel([](const Conv3dCase& c, const Conv3dCandidate& kernel) {
    const auto conv = planned(c, kernel);
    AlignedBuffer<float> out(c.output_size());
    AlignedBuffer<float> input_grad(c.input_size());
    std::vector<float> weight_grad(c.weights.size());
    std::vector<float> bias_grad(c.bias.size());
    const auto passes = [&] {
      conv->forward(c.input.data(), Activation::relu, nullptr, false, out.data(), workspace());
      conv->backward_data(c.output_grad.data(), nullptr, false, input_grad.data(), workspace());
      conv->backward_weights(c.input.data(), Activation::relu, c.output_grad.data(), weight_grad.data(), bias_grad.data(),
                             workspace());
    };
    passes();  // the first ones of a size may make the workspace larger
    const std::int64_t before = allocation_count();
    passes();
    EXPECT_EQ(allocation_count(), before);
  });
}

TEST(Conv3dKernels, NotANumberPassesTheRectifier) {
  for_each_kernel([](const Conv3dCase& c, const Conv3dCandidate& kernel) {
    AlignedBuffer<float> input = copy_of(c.input);
    input[activation_offset(c.shape, c.shape.stored_in(), 0, 0, 0)] = std::numeric_limits<float>::quiet_NaN();
    const auto conv = planned(c, kernel);
    AlignedBuffer<float> out(c.output_size());
    conv->forward(input.data(), Activation::relu, nullptr, true, out.data(), workspace());
    EXPECT_TRUE(std::isnan(out[activation_offset(c.shape, c.shape.stored_out(), 0, 0, 0)]));
  });
}

}  // namespace
}  // namespace floodtide::kernels
