// SPDX-License-Identifier: Apache-2.0
// Tests of bits, memory, order and errors. tests/python/unit/test_pytorch.py compares values and gradients with PyTorch.
#include "floodtide/nn/unet.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"

namespace floodtide::nn {
namespace {

UNetOptions slices() {
  UNetOptions options;
  options.depth = 3;
  return options;
}

UNetOptions volumes() {
  UNetOptions options;
  options.depth = 3;
  options.classes = 3;
  options.kernels = {{1, 3, 3}, {3, 3, 3}, {3, 3, 3}};
  options.pools = {{1, 2, 2}, {2, 2, 2}};
  options.output = Output::sigmoid;
  options.dropout = 0.25;
  return options;
}

struct Batch {
  explicit Batch(const UNetOptions& options, std::int64_t n = 2, const Vec3& size = {2, 8, 12})
      : images({n, size[0], size[1], size[2], options.in_channels}),
        labels({n, size[0], size[1], size[2]}),
        targets({n, size[0], size[1], size[2], options.classes}),
        examples(static_cast<std::size_t>(n)),
        output(options.output) {
    Philox random(21, 1);
    for (float& value : images.span()) value = static_cast<float>(random.normal());
    for (std::uint8_t& label : labels.span()) label = random.uniform() < 0.4 ? 1 : 0;
    for (float& target : targets.span()) target = random.uniform() < 0.4 ? 1.0F : 0.0F;
    std::iota(examples.begin(), examples.end(), 5);
  }
  SampleBatch view(int groups = 1) const {
    const SegmentationTruth truth =
        output == Output::softmax ? SegmentationTruth{labels.view(), {}, {}} : SegmentationTruth{{}, targets.view(), {}};
    return {images.view(), truth, groups, examples, {}};
  }

  Tensor<float, 5> images;
  Tensor<std::uint8_t, 4> labels;
  Tensor<float, 5> targets;
  std::vector<std::uint64_t> examples;
  Output output;
};

std::vector<float> gradients_of(UNet& network, const SampleBatch& batch, double scale = 1, const OnReady& on_ready = {}) {
  std::vector<float> gradients(network.parameters().size());
  static_cast<void>(network.loss_and_gradients(batch, {}, gradients, scale, on_ready));
  return gradients;
}

class UNets : public testing::TestWithParam<UNetOptions> {};
INSTANTIATE_TEST_SUITE_P(Kinds, UNets, testing::Values(slices(), volumes()),
                         [](const auto& kind) { return kind.index == 0 ? "slices" : "volumes"; });

TEST_P(UNets, GiveTheSameBitsOnAnyNumberOfThreads) {
  const Batch batch(GetParam());
  std::vector<float> gradients[2];
  Tensor<float, 5> out({2, 2, 8, 12, GetParam().classes});
  std::vector<float> probabilities[2];
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    UNet network(GetParam());
    gradients[threads / 2] = gradients_of(network, batch.view(2));
    network.forward(batch.images.view(), out.view());
    probabilities[threads / 2].assign(out.span().begin(), out.span().end());
  }
  set_num_threads(2);
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(probabilities[0], probabilities[1]);
}

TEST_P(UNets, AllocateNothingAfterTheFirstPass) {
  const Batch batch(GetParam());
  UNet network(GetParam());
  std::vector<float> gradients(network.parameters().size());
  Tensor<float, 5> out({2, 2, 8, 12, GetParam().classes});
  const auto pass = [&] {
    network.parameters_changed();
    static_cast<void>(network.loss_and_gradients(batch.view(), {}, gradients, 1));
    network.forward(batch.images.view(), out.view());
  };
  pass();
  const std::int64_t before = allocation_count();
  pass();
  EXPECT_EQ(allocation_count(), before);
}

TEST_P(UNets, TheMemoryOfPassesIsKnownBefore) {
  UNetOptions options = GetParam();
  for (const bool norm : {true, false}) {
    for (const int depth : {1, 2, 3}) {
      options.depth = depth;
      options.batch_norm = norm;
      if (options.kernels.size() > 1) {
        options.kernels = std::vector<Vec3>(static_cast<std::size_t>(depth), {3, 3, 3});
        options.pools = {{1, 2, 2}};
      }
      for (const std::int64_t n : {1, 2, 70}) {
        const Batch batch(options, n);
        Tensor<float, 5> out({n, 2, 8, 12, options.classes});
        UNet network(options);
        network.forward(batch.images.view(), out.view());
        EXPECT_EQ(network.workspace_bytes(), forward_bytes(options, n, {2, 8, 12}));
        static_cast<void>(gradients_of(network, batch.view()));
        EXPECT_EQ(network.workspace_bytes(), training_bytes(options, n, {2, 8, 12}));
        network.free_workspace();
        EXPECT_EQ(network.workspace_bytes(), 0U);
      }
    }
  }
  EXPECT_THROW(static_cast<void>(training_bytes(options, std::int64_t{1} << 62, {2, 8, 12})), Error);
  EXPECT_THROW(static_cast<void>(forward_bytes(options, 0, {2, 8, 12})), Error);
}

TEST_P(UNets, TellOfEachGradientOnceAndWhenItIsFinal) {
  const Batch batch(GetParam());
  UNet network(GetParam());
  std::vector<float> gradients(network.parameters().size());
  std::vector<std::vector<float>> seen(network.layout().entries().size());
  static_cast<void>(network.loss_and_gradients(batch.view(), {}, gradients, 1, [&](std::size_t entry) {
    EXPECT_TRUE(seen[entry].empty()) << network.layout().entry(entry).name;
    const auto values = part(std::span<const float>(gradients), network.layout().entry(entry));
    seen[entry].assign(values.begin(), values.end());
  }));
  for (std::size_t entry = 0; entry < seen.size(); ++entry) {
    const auto values = part(std::span<const float>(gradients), network.layout().entry(entry));
    EXPECT_EQ(seen[entry], std::vector<float>(values.begin(), values.end())) << network.layout().entry(entry).name;
  }
}

TEST_P(UNets, LossChangesAlongTheGradientAsTheGradientSays) {
  const Batch batch(GetParam());
  UNet network(GetParam());
  const std::vector<float> gradients = gradients_of(network, batch.view(), 0.5);
  const std::vector<float> start(network.parameters().begin(), network.parameters().end());
  const auto trained = static_cast<std::size_t>(network.layout().trained_size());
  double squares = 0;
  for (std::size_t i = 0; i < trained; ++i) squares += double{gradients[i]} * double{gradients[i]};
  constexpr double kChange = 2e-3;
  const auto loss_at = [&](double factor) {
    for (std::size_t i = 0; i < trained; ++i) {
      network.parameters()[i] = static_cast<float>(double{start[i]} + factor * kChange / squares * double{gradients[i]});
    }
    network.parameters_changed();
    std::vector<float> unused(start.size());
    return 0.5 * network.loss_and_gradients(batch.view(), {}, unused, 1).loss;
  };
  // The change is far above the rounding error. Curvature, and ReLUs that switch, cause an error of a few percent.
  EXPECT_NEAR((loss_at(1) - loss_at(-1)) / (2 * kChange), 1.0, 0.05);
}

TEST_P(UNets, GradientsAreAddedTimesTheScale) {
  const Batch batch(GetParam());
  UNet network(GetParam());
  const std::vector<float> once = gradients_of(network, batch.view(), 1);
  std::vector<float> sum = once;
  static_cast<void>(network.loss_and_gradients(batch.view(), {}, sum, 2));
  for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], 3 * once[i], 1e-4 * (std::abs(once[i]) + 1e-3)) << i;
}

TEST(UNet, StatisticsOfGroupsAreSummedOverTheirImages) {
  const Batch batch(slices(), 4);
  UNet network(slices());
  const std::vector<float> all = gradients_of(network, batch.view(2));
  const auto& entry = network.layout().find("encoder0/norm_a/mean");
  std::vector<double> halves(static_cast<std::size_t>(entry.size));
  for (const std::int64_t half : {0, 1}) {
    const std::int64_t images = batch.images.size() / 2, labels = batch.labels.size() / 2;
    SampleBatch part_batch = batch.view();
    part_batch.images = {batch.images.data() + half * images, {2, 2, 8, 12, 1}};
    part_batch.truth.labels = {batch.labels.data() + half * labels, {2, 2, 8, 12}};
    const std::vector<float> gradients = gradients_of(network, part_batch);
    const auto mean = part(std::span<const float>(gradients), entry);
    for (std::size_t c = 0; c < mean.size(); ++c) halves[c] += double{mean[c]};
  }
  const auto mean = part(std::span<const float>(all), entry);
  for (std::size_t c = 0; c < mean.size(); ++c) EXPECT_NEAR(mean[c], halves[c], 1e-5 * (1 + std::abs(halves[c])));
}

TEST(UNet, AsksForTheSumsThatItAnnounces) {
  UNetOptions options = slices();
  options.synchronised = true;
  const Batch batch(options);
  SegmentationLoss loss;
  for (const bool over_batch : {false, true}) {
    loss.over_batch = over_batch;
    UNet network(options);
    std::vector<float> gradients(network.parameters().size());
    std::int64_t calls = 0;
    std::int64_t longest = 0;
    static_cast<void>(network.loss_and_gradients(batch.view(), loss, gradients, 1, {}, [&](std::span<double> sums) {
      ++calls;
      longest = std::max(longest, std::ssize(sums));
    }));
    EXPECT_EQ(calls, network.sums_per_pass(loss));
    EXPECT_EQ(longest, network.longest_sum());
  }
}

TEST(UNet, WorksWithChannelsBeyondTheFastKernels) {
  UNetOptions options = slices();
  options.depth = 2;
  options.features = 528;
  options.kernels = {{1, 1, 1}};
  const Batch batch(options, 1, {1, 2, 2});
  UNet network(options);
  std::vector<float> gradients(network.parameters().size());
  EXPECT_TRUE(std::isfinite(network.loss_and_gradients(batch.view(), {}, gradients, 1).loss));
  EXPECT_NE(network.kernel_names().find("eigen"), std::string::npos);
}

}  // namespace
}  // namespace floodtide::nn
