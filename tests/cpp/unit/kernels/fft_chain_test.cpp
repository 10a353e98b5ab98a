// SPDX-License-Identifier: Apache-2.0
#include "kernels/fft_chain/fft_chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "floodtide/base/parallel.hpp"
#include "unit/kernels/conv3d_fixture.hpp"

namespace floodtide::kernels {

namespace fft {
extern const Kernels kAvx512Emulated;
}

namespace {

using test::Conv3dCase;

struct Chain {
  Conv3dShape shape;
  std::vector<Conv3dCase> layers;
  AlignedBuffer<float> input;
};

Chain make_chain(const Vec3& size, std::int64_t channels, int count) {
  Chain chain{{size[0], size[1], size[2], channels, channels}, {}, {}};
  for (int i = 0; i < count; ++i) {
    chain.layers.push_back(test::make_case(chain.shape));
    Conv3dCase& layer = chain.layers.back();
    Philox random(11, static_cast<std::uint64_t>(i));
    const double scale = 1 / std::sqrt(27.0 * static_cast<double>(channels));  // keeps the size of activations
    for (float& weight : layer.weights) weight = static_cast<float>(scale * random.normal());
  }
  chain.input = test::random_activation(chain.shape, channels, channels, 9);
  return chain;
}

/// Computes the chain in double precision, layer by layer.
std::vector<double> reference_of(const Chain& chain) {
  const auto apply = [&](std::size_t layer, const std::vector<double>& input, Activation on_input, const double* residual,
                         bool relu_output) {
    const Conv3dCase& c = chain.layers[layer];
    std::vector<double> out(input.size());
    reference::conv3d_forward(c.shape, input.data(), on_input, test::widened(c.weights).data(), test::widened(c.bias).data(),
                              residual, relu_output, out.data());
    return out;
  };
  std::vector<double> stream = apply(0, test::widened(chain.input), Activation::none, nullptr, false);
  for (std::size_t i = 1; i < chain.layers.size(); i += 2) {
    const std::vector<double> inner = apply(i, stream, Activation::relu, nullptr, true);
    stream = apply(i + 1, inner, Activation::none, stream.data(), false);
  }
  return stream;
}

AlignedBuffer<float> copy_of(const AlignedBuffer<float>& from) {
  AlignedBuffer<float> result(from.size());
  std::ranges::copy(from.span(), result.data());
  return result;
}

AlignedBuffer<float> run(const Chain& chain, const fft::Kernels& kernels) {
  const Conv3dShape& shape = chain.shape;
  const FftChain fft({shape.z, shape.y, shape.x}, shape.in_channels, kernels);
  FftChain::Workspace workspace = fft.make_workspace(Passes::forward);
  AlignedBuffer<float> stream(chain.input.size());
  const auto pass = [&](auto multiply) {
    fft.begin(chain.input.data(), workspace);
    for (std::size_t i = 0; i < chain.layers.size(); ++i) {
      multiply(chain.layers[i].weights.data());
      fft.finish({.bias = chain.layers[i].bias.data(),
                  .residual = i % 2 == 0 && i > 0 ? stream.data() : nullptr,
                  .out = i % 2 == 0 ? stream.data() : nullptr,
                  .next = i + 1 == chain.layers.size() ? FftChain::Next::nothing : FftChain::Next::rectified},
                 workspace);
    }
  };
  pass([&](const float* weights) { fft.multiply(fft.transformed(weights), workspace); });
  const AlignedBuffer<float> first = copy_of(stream);
  std::ranges::fill(stream.span(), 0.0F);
  pass([&](const float* weights) { fft.multiply(weights, workspace); });  // the spectrum of the pass before does not matter
  EXPECT_TRUE(std::ranges::equal(first.span(), stream.span()));
  return stream;
}

double relative_error(std::span<const float> found, const std::vector<double>& expected) {
  double error = 0, square = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    square += expected[i] * expected[i];
  }
  return std::sqrt(error / square);
}

/// Checks the chain with all kernels of this processor, and with the emulated ones.
template <class Body>
void for_kernels(Body body) {
  body(fft::kAvx512Emulated);
  for (const Isa level : {Isa::avx2, Isa::avx512}) {
    const fft::Kernels* kernels = level <= processor_isa() ? FftChain::kernels_of(level) : nullptr;
    if (kernels != nullptr) body(*kernels);
  }
}

struct Size {
  Vec3 voxels;
  std::int64_t channels;
  int layers;
};

class FftChainSizes : public testing::TestWithParam<Size> {};

TEST_P(FftChainSizes, EqualsTheReference) {
  const auto [voxels, channels, layers] = GetParam();
  const Chain chain = make_chain(voxels, channels, layers);
  const std::vector<double> expected = reference_of(chain);
  for_kernels([&](const fft::Kernels& kernels) {
    EXPECT_LT(relative_error(run(chain, kernels).span(), expected), 6e-7);  // 2.3e-7 a layer
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, FftChainSizes,
                         testing::Values(Size{{11, 11, 11}, 16, 1}, Size{{11, 22, 11}, 16, 3}, Size{{22, 11, 33}, 32, 3},
                                         Size{{33, 11, 22}, 48, 1}, Size{{11, 11, 22}, 16, 5}, Size{{22, 22, 22}, 48, 1},
                                         Size{{33, 33, 22}, 16, 1}));

TEST(FftChain, TransposedConvolutionsEqualTheReference) {
  const Chain chain = make_chain({22, 11, 11}, 32, 2);
  const Conv3dShape& shape = chain.shape;
  const AlignedBuffer<float> inner_mask = test::random_activation(shape, 32, 32, 21);
  const AlignedBuffer<float> stream_mask = test::random_activation(shape, 32, 32, 22);
  const auto weights = [&](std::size_t layer) { return test::widened(chain.layers[layer].weights); };
  const std::vector<double> grad = test::widened(chain.input);
  std::vector<double> inner(grad.size()), expected = grad;
  reference::conv3d_backward_data(shape, grad.data(), weights(1).data(), test::widened(inner_mask).data(), false, inner.data());
  reference::conv3d_backward_data(shape, inner.data(), weights(0).data(), test::widened(stream_mask).data(), true,
                                  expected.data());
  for_kernels([&](const fft::Kernels& kernels) {
    const FftChain fft({shape.z, shape.y, shape.x}, 32, kernels);
    FftChain::Workspace workspace = fft.make_workspace(Passes::all);
    AlignedBuffer<float> stream_grad = copy_of(chain.input), inner_grad(stream_grad.size());
    std::vector<float> grads(27 * 32 * 32 + 32);  // not checked here
    const auto backward = [&](std::size_t layer) {
      fft.backward(
          {chain.layers[layer].weights.data(), chain.input.data(), Activation::none, grads.data(), grads.data() + 27 * 32 * 32},
          workspace);
    };
    fft.begin(stream_grad.data(), workspace);
    backward(1);
    fft.finish({.mask = inner_mask.data(), .out = inner_grad.data(), .next = FftChain::Next::out}, workspace);
    backward(0);
    fft.finish({.mask = stream_mask.data(), .residual = stream_grad.data(), .out = stream_grad.data()}, workspace);
    EXPECT_LT(relative_error(inner_grad.span(), inner), 6e-7);
    EXPECT_LT(relative_error(stream_grad.span(), expected), 6e-7);
  });
}

struct WeightGradients {
  std::vector<float> weights, bias;
};

/// Adds the gradients of a convolution to ones.
WeightGradients weight_gradients(const Chain& chain, const AlignedBuffer<float>& grad, Activation on_input,
                                 const fft::Kernels& kernels) {
  const Conv3dShape& shape = chain.shape;
  const std::int64_t channels = shape.in_channels;
  const FftChain fft({shape.z, shape.y, shape.x}, channels, kernels);
  FftChain::Workspace workspace = fft.make_workspace(Passes::all);
  WeightGradients result{std::vector<float>(static_cast<std::size_t>(27 * channels * channels), 1.0F),
                         std::vector<float>(static_cast<std::size_t>(channels), 1.0F)};
  fft.begin(grad.data(), workspace);
  fft.backward({chain.layers[0].weights.data(), chain.input.data(), on_input, result.weights.data(), result.bias.data()},
               workspace);
  return result;
}

TEST_P(FftChainSizes, GradientsOfWeightsEqualTheReference) {
  const auto [voxels, channels, layers] = GetParam();
  const Chain chain = make_chain(voxels, channels, 1);
  const AlignedBuffer<float> grad = test::random_activation(chain.shape, channels, channels, 31);
  for (const Activation on_input : {Activation::none, Activation::relu}) {
    std::vector<double> weights(chain.layers[0].weights.size(), 1.0), bias(static_cast<std::size_t>(channels), 1.0);
    reference::conv3d_backward_weights(chain.shape, test::widened(chain.input).data(), on_input, test::widened(grad).data(),
                                       weights.data(), bias.data());
    for_kernels([&](const fft::Kernels& kernels) {
      const WeightGradients found = weight_gradients(chain, grad, on_input, kernels);
      EXPECT_LT(relative_error(std::span(found.weights), weights), 6e-7);
      EXPECT_LT(relative_error(std::span(found.bias), bias), 2e-7);
    });
  }
}

TEST(FftChain, BitsOfWeightGradientsDoNotDependOnThreads) {
  const fft::Kernels* kernels = FftChain::kernels_of(processor_isa());
  if (kernels == nullptr) kernels = &fft::kAvx512Emulated;
  const Chain chain = make_chain({22, 33, 11}, 32, 1);
  const AlignedBuffer<float> grad = test::random_activation(chain.shape, 32, 32, 32);
  const int before = num_threads();
  set_num_threads(1);
  const WeightGradients one = weight_gradients(chain, grad, Activation::relu, *kernels);
  for (const int threads : {2, 3, 4}) {
    set_num_threads(threads);
    const WeightGradients several = weight_gradients(chain, grad, Activation::relu, *kernels);
    EXPECT_EQ(one.weights, several.weights) << threads << " threads";
    EXPECT_EQ(one.bias, several.bias) << threads << " threads";
  }
  set_num_threads(before);
}

TEST(FftChain, ZerosStayOutsideOfTheVolume) {
  const Chain chain = make_chain({11, 22, 11}, 16, 3);
  for_kernels([&](const fft::Kernels& kernels) {
    const AlignedBuffer<float> out = run(chain, kernels);
    std::int64_t inside = 0, outside = 0;
    for (std::int64_t z = -1; z <= chain.shape.z; ++z) {
      for (std::int64_t y = -1; y <= chain.shape.y; ++y) {
        for (std::int64_t x = -1; x <= chain.shape.x; ++x) {
          const bool in = z >= 0 && z < chain.shape.z && y >= 0 && y < chain.shape.y && x >= 0 && x < chain.shape.x;
          (in ? inside : outside) += 1;
          if (!in) {
            EXPECT_EQ(out[activation_offset(chain.shape, 16, z, y, x)], 0.0F);
          }
        }
      }
    }
    EXPECT_EQ(inside, 11 * 22 * 11);
    EXPECT_EQ(outside, 13 * 24 * 13 - inside);
  });
}

TEST(FftChain, BitsDoNotDependOnThreads) {
  const fft::Kernels* kernels = FftChain::kernels_of(processor_isa());
  if (kernels == nullptr) kernels = &fft::kAvx512Emulated;
  const Chain chain = make_chain({22, 22, 11}, 16, 3);
  const int before = num_threads();
  set_num_threads(1);
  const AlignedBuffer<float> one = run(chain, *kernels);
  for (const int threads : {2, 3, 4}) {
    set_num_threads(threads);
    const AlignedBuffer<float> several = run(chain, *kernels);
    EXPECT_TRUE(std::ranges::equal(one.span(), several.span())) << threads << " threads";
  }
  set_num_threads(before);
}

TEST(FftChain, SaysWhatIsMissing) {
  EXPECT_EQ(FftChain::unsupported({33, 33, 33}, 32, Isa::avx512), "");
  EXPECT_EQ(FftChain::unsupported({33, 33, 33}, 32, Isa::avx2), "");
  EXPECT_EQ(FftChain::unsupported({33, 33, 33}, 32, Isa::generic), "needs avx2, the level is generic");
  EXPECT_EQ(FftChain::unsupported({33, 17, 33}, 32, Isa::avx512),
            "the field of view is (33, 17, 33), expected multiples of 11 voxels");
  EXPECT_EQ(FftChain::unsupported({33, 33, 33}, 24, Isa::avx512), "24 feature maps, expected a multiple of 16");
}

}  // namespace
}  // namespace floodtide::kernels
