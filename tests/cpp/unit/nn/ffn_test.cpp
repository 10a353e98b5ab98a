// SPDX-License-Identifier: Apache-2.0
#include "floodtide/nn/ffn.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"
#include "support/ffn_reference.hpp"

namespace floodtide::nn {
namespace {

std::vector<float> draw(std::int64_t count, std::uint64_t stream, bool normal) {
  Philox random(17, stream);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(normal ? random.normal() : random.uniform());
  return values;
}

/// One example: image and logits are normal numbers, labels and weights are in [0, 1).
struct Example {
  explicit Example(const Vec3& extents)
      : size(extents),
        image(draw(volume<3>(extents), 1, true)),
        logits(draw(volume<3>(extents), 2, true)),
        labels(draw(volume<3>(extents), 3, false)),
        weights(draw(volume<3>(extents), 4, false)) {}
  View<const float, 3> view(const std::vector<float>& values) const { return {values.data(), size}; }
  FfnExample into(std::vector<float>& out_logits) const {
    return {view(image), view(logits), {out_logits.data(), size}, view(labels), view(weights)};
  }

  Vec3 size;
  std::vector<float> image, logits, labels, weights;
};

struct Step {
  double loss;
  std::vector<float> logits, gradients;
};

Step step(Ffn& network, const Example& example, double scale = 1) {
  Step result{0, std::vector<float>(example.image.size()), std::vector<float>(network.parameters().size())};
  FfnExample one = example.into(result.logits);
  network.loss_and_gradients({&one, 1}, result.gradients, scale);
  result.loss = one.loss;
  return result;
}

void forward(Ffn& network, const Example& example, std::vector<float>& out_logits, std::optional<Forward> by = {}) {
  const FfnExample one = example.into(out_logits);
  network.forward({&one, 1}, by);
}

Ffn network_of(int depth, int features) {
  return Ffn({.depth = depth, .fov = {5, 5, 5}, .deltas = {1, 1, 1}, .features = features, .seed = 5});
}

/// Set the biases to other numbers than zero, so that biases are tested too.
void set_biases(Ffn& network) {
  Philox random(network.options().seed, 99);
  for (const auto& entry : network.layout().entries()) {
    if (entry.shape.size() > 1) continue;
    for (float& bias : part(network.parameters(), entry)) bias = static_cast<float>(0.1 * random.normal());
  }
  network.parameters_changed();
}

test::FfnReference reference_of(const Ffn& network) {
  const auto parameters = network.parameters();
  return {network.options(), &network.layout(), std::vector<double>(parameters.begin(), parameters.end())};
}

double norm(std::span<const double> values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

struct Case {
  int depth, features;
  Vec3 size;
};
std::ostream& operator<<(std::ostream& stream, const Case& one) {
  return stream << "depth " << one.depth << ", features " << one.features << ", size " << Show{one.size};
}

class FfnSizes : public testing::TestWithParam<Case> {};

TEST_P(FfnSizes, AgreesWithTheDoubleReferenceUnderItsOwnReluMasks) {
  const Example example(GetParam().size);
  Ffn network = network_of(GetParam().depth, GetParam().features);
  set_biases(network);
  const Step got = step(network, example);
  test::FfnReference reference = reference_of(network);
  const auto masks = network.relu_masks();
  reference.masks.assign(masks.span().begin(), masks.span().end());
  const auto expected = reference.run(example.size, example.image, example.logits, example.labels, example.weights);

  // Rounding errors grow with the depth of the network, and with the square root of the length of a sum (27 taps * features).
  const double epsilon = std::numeric_limits<float>::epsilon();
  const double growth = 2.0 * GetParam().depth * std::sqrt(27.0 * std::max(2, GetParam().features));
  EXPECT_NEAR(got.loss, expected.loss, growth * epsilon * (1 + std::abs(expected.loss)));
  for (std::size_t i = 0; i < got.logits.size(); ++i) {
    ASSERT_NEAR(got.logits[i], expected.logits[i], growth * epsilon * (1 + std::abs(expected.logits[i]))) << i;
  }
  for (const auto& entry : network.layout().entries()) {
    const auto want = part(std::span<const double>(expected.gradients), entry);
    const auto have = part(std::span<const float>(got.gradients), entry);
    std::vector<double> difference(want.begin(), want.end());
    for (std::size_t i = 0; i < have.size(); ++i) difference[i] -= have[i];
    EXPECT_LE(norm(difference), growth * epsilon * norm(want)) << entry.name;
  }
}

TEST_P(FfnSizes, ForwardGivesTheLogitsOfTheTrainingPass) {
  const Example example(GetParam().size);
  Ffn network = network_of(GetParam().depth, GetParam().features);
  set_biases(network);
  const Step trained = step(network, example);
  std::vector<float> logits = example.logits;  // forward() updates them in place
  const FfnExample one{example.view(example.image), example.view(logits), {logits.data(), example.size}, {}, {}};
  network.forward({&one, 1});
  EXPECT_EQ(logits, trained.logits);
}

TEST_P(FfnSizes, GivesTheSameBitsOnAnyNumberOfThreads) {
  const Example example(GetParam().size);
  Ffn network = network_of(GetParam().depth, GetParam().features);
  set_biases(network);
  set_num_threads(1);
  const Step one = step(network, example);
  set_num_threads(3);
  const Step three = step(network, example);
  set_num_threads(2);
  EXPECT_EQ(one.loss, three.loss);
  EXPECT_EQ(one.logits, three.logits);
  EXPECT_EQ(one.gradients, three.gradients);
}

TEST_P(FfnSizes, AllocatesNothingAfterTheFirstStep) {
  const Example example(GetParam().size);
  Ffn network = network_of(GetParam().depth, GetParam().features);
  set_biases(network);
  Step room = step(network, example);
  const std::int64_t before = allocation_count();
  network.parameters_changed();
  FfnExample one = example.into(room.logits);
  std::size_t ready = 0;
  network.loss_and_gradients({&one, 1}, room.gradients, 1, [&ready](std::size_t) { ++ready; });
  EXPECT_EQ(ready, network.layout().entries().size());
  forward(network, example, room.logits);
  EXPECT_EQ(allocation_count(), before);
}

INSTANTIATE_TEST_SUITE_P(Sizes, FfnSizes,
                         testing::Values(Case{1, 1, {1, 1, 1}}, Case{1, 5, {3, 2, 4}}, Case{2, 16, {5, 7, 3}},
                                         Case{2, 17, {1, 6, 9}}, Case{3, 32, {5, 5, 12}}, Case{2, 33, {4, 3, 5}},
                                         Case{4, 8, {7, 1, 11}}, Case{2, 16, {11, 33, 33}}));

TEST(FfnReferenceGradients, PassCentralDifferencesForEveryArray) {
  const Example example({3, 4, 3});
  Ffn network = network_of(3, 3);
  set_biases(network);
  test::FfnReference reference = reference_of(network);
  const auto at = reference.run(example.size, example.image, example.logits, example.labels, example.weights);
  Philox random(23, 0);
  for (const auto& entry : network.layout().entries()) {
    std::vector<double> direction(static_cast<std::size_t>(entry.size));
    for (double& value : direction) value = random.normal();
    double expected = 0;
    for (std::size_t i = 0; i < direction.size(); ++i)
      expected += direction[i] * at.gradients[static_cast<std::size_t>(entry.offset) + i];
    const double h = 1e-6;
    const auto loss_at = [&](double t) {
      test::FfnReference moved = reference;
      for (std::size_t i = 0; i < direction.size(); ++i)
        moved.parameters[static_cast<std::size_t>(entry.offset) + i] += t * direction[i];
      return moved.run(example.size, example.image, example.logits, example.labels, example.weights).loss;
    };
    const double measured = (loss_at(h) - loss_at(-h)) / (2 * h);
    // The tolerance is the rounding error of the two losses, divided by 2h. The truncation error h^2 is far smaller. A loss is
    // a sum of about 100 terms.
    const double tolerance = 100 * std::numeric_limits<double>::epsilon() * std::abs(at.loss) / h;
    EXPECT_NEAR(measured, expected, tolerance) << entry.name;
  }
}

TEST(Ffn, HasThePublishedNumberOfParametersAndNames) {
  const Ffn network({});
  EXPECT_EQ(network.layout().size(), 472'353);
  EXPECT_EQ(Ffn({.depth = 12}).layout().size(), 638'433);
  EXPECT_EQ(network.layout().entry(0).name, "seed_update/conv0_a/weights");
  EXPECT_EQ(network.layout().find("seed_update/conv8_b/weights").shape, (std::vector<std::int64_t>{3, 3, 3, 32, 32}));
  EXPECT_EQ(network.layout().find("seed_update/conv_lom/weights").shape, (std::vector<std::int64_t>{1, 1, 1, 32, 1}));
}

TEST(Ffn, InitialWeightsAreGlorotUniformAndFollowTheSeed) {
  const Ffn network({.depth = 2, .seed = 3});
  for (const auto& [name, limit] :
       {std::pair{"seed_update/conv0_a/weights", 0.080845}, {"seed_update/conv1_b/weights", 0.058926}}) {
    const auto values = part(network.parameters(), network.layout().find(name));
    const auto [low, high] = std::ranges::minmax(values);
    EXPECT_GE(low, -limit * 1.00001);
    EXPECT_LE(high, limit * 1.00001);
    const double square =
        std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / static_cast<double>(values.size());
    // Tolerance: five standard errors. The square of a uniform number has mean limit^2 / 3 and standard deviation
    // limit^2 * sqrt(4 / 45).
    EXPECT_NEAR(square, limit * limit / 3, 5 * limit * limit * std::sqrt(4.0 / 45 / static_cast<double>(values.size())));
  }
  const auto biases = part(network.parameters(), network.layout().find("seed_update/conv1_a/biases"));
  EXPECT_TRUE(std::ranges::all_of(biases, [](float bias) { return bias == 0; }));
  EXPECT_TRUE(std::ranges::equal(network.parameters(), Ffn({.depth = 2, .seed = 3}).parameters()));
  EXPECT_FALSE(std::ranges::equal(network.parameters(), Ffn({.depth = 2, .seed = 4}).parameters()));
}

TEST(Ffn, AddsScaledGradients) {
  const Example example({3, 5, 4});
  Ffn network = network_of(2, 4);
  set_biases(network);
  const Step once = step(network, example);
  Step twice = step(network, example);
  FfnExample one = example.into(twice.logits);
  network.loss_and_gradients({&one, 1}, twice.gradients, 1);
  for (std::size_t i = 0; i < once.gradients.size(); ++i) {
    EXPECT_NEAR(twice.gradients[i], 2 * once.gradients[i],
                8 * std::numeric_limits<float>::epsilon() * (1 + std::abs(once.gradients[i])));
  }
  const Step half = step(network, example, 0.5);  // exact, because 0.5 is a power of two
  for (std::size_t i = 0; i < once.gradients.size(); ++i) EXPECT_EQ(half.gradients[i], 0.5F * once.gradients[i]);
}

TEST(Ffn, ABatchIsItsExamplesWhateverThreadsShare) {
  std::vector<Example> examples;
  for (std::uint64_t i = 0; i < 5; ++i) {
    examples.emplace_back(Vec3{5, 9, 12});
    examples.back().image = draw(5 * 9 * 12, 10 + i, true);
  }
  std::vector<float> expected_gradients;
  std::vector<std::vector<float>> expected_logits;
  const int before = num_threads();
  for (const Parallel parallel : {Parallel::voxels, Parallel::fovs}) {
    for (const int threads : {1, 2, 3, 6}) {
      set_num_threads(threads);
      Ffn network({.depth = 3, .fov = {5, 5, 5}, .deltas = {1, 1, 1}, .features = 16, .parallel = parallel});
      std::vector<std::vector<float>> logits(examples.size(), std::vector<float>(examples[0].image.size()));
      std::vector<FfnExample> batch;
      for (std::size_t i = 0; i < examples.size(); ++i) batch.push_back(examples[i].into(logits[i]));
      std::vector<float> gradients(network.parameters().size());
      network.loss_and_gradients(batch, gradients, 0.2);
      EXPECT_EQ(network.workspace_bytes(), training_bytes(network.options(), {5, 9, 12}, 5, threads)) << threads << " threads";
      if (expected_gradients.empty()) {
        for (std::size_t i = 0; i < examples.size(); ++i) {
          const Step alone = step(network, examples[i], 0.2);
          EXPECT_EQ(alone.loss, batch[i].loss);
          EXPECT_EQ(alone.logits, logits[i]);
          expected_gradients.resize(gradients.size());
          for (std::size_t k = 0; k < gradients.size(); ++k) expected_gradients[k] += alone.gradients[k];
        }
        expected_logits = logits;
      }
      EXPECT_EQ(gradients, expected_gradients) << threads << " threads";
      std::vector<float> each(examples.size() * gradients.size(), 7.0F), sum(gradients.size());
      network.loss_and_each_gradients(batch, each, 0.2);
      for (std::size_t i = 0; i < each.size(); ++i) sum[i % sum.size()] += each[i];
      EXPECT_EQ(sum, expected_gradients) << threads << " threads, each apart";
      EXPECT_EQ(logits, expected_logits) << threads << " threads";
      for (FfnExample& example : batch) std::ranges::fill(example.out_logits.span(), 0.0F);
      network.forward(batch);
      EXPECT_EQ(logits, expected_logits) << threads << " threads, forward";
    }
  }
  set_num_threads(before);
}

TEST(Ffn, SaysWhichGradientsAreFinalTheLastLayersFirst) {
  const Example example({5, 5, 5});
  for (const Parallel parallel : {Parallel::fovs, Parallel::voxels}) {
    Ffn network({.depth = 2, .fov = {5, 5, 5}, .deltas = {2, 2, 2}, .features = 4, .parallel = parallel});
    for (const std::size_t batch_size : {1U, 2U, 3U}) {
      set_num_threads(2);
      std::vector<std::vector<float>> logits(batch_size, std::vector<float>(example.image.size()));
      std::vector<FfnExample> batch;
      for (std::vector<float>& out : logits) batch.push_back(example.into(out));
      std::vector<float> gradients(network.parameters().size());
      std::vector<float> when_ready(gradients.size());
      std::vector<std::size_t> order;
      network.loss_and_gradients(batch, gradients, 0.5, [&](std::size_t entry) {
        order.push_back(entry);
        std::ranges::copy(part(std::span(gradients), network.layout().entry(entry)),
                          part(std::span(when_ready), network.layout().entry(entry)).begin());
      });
      set_num_threads(1);
      std::vector<std::size_t> expected(network.layout().entries().size());
      std::iota(expected.rbegin(), expected.rend(), 0U);
      EXPECT_EQ(order, expected) << batch_size << ' ' << name(parallel);
      EXPECT_EQ(when_ready, gradients) << batch_size << ' ' << name(parallel);
    }
  }
}

TEST(Ffn, SeesNewParametersAfterTheCall) {
  const Example example({3, 3, 3});
  Ffn network = network_of(1, 4);
  set_biases(network);
  const Step before = step(network, example);
  std::ranges::fill(network.parameters(), 0.0F);
  network.parameters_changed();
  EXPECT_NE(before.logits, example.logits);
  EXPECT_EQ(step(network, example).logits, example.logits);
}

TEST(Ffn, EqualParametersAreNoChange) {
  Ffn network = network_of(1, 4);
  set_biases(network);
  const std::uint64_t version = network.use().version();
  network.parameters_changed();
  EXPECT_EQ(network.use().version(), version);
  network.parameters()[0] += 1;
  network.parameters_changed();
  EXPECT_GT(network.use().version(), version);
}

TEST(Ffn, TakesSizesInTurn) {
  Ffn network = network_of(2, 6);
  set_biases(network);
  const Example small({3, 3, 3}), large({4, 6, 5});
  const Step first = step(network, small);
  static_cast<void>(step(network, large));
  EXPECT_EQ(step(network, small).gradients, first.gradients);
}

TEST(Ffn, KeepsTwoActivationsForForwardAndTwoPerModuleForTraining) {
  const Example example({9, 9, 9});
  Ffn network = network_of(6, 32);
  set_biases(network);
  EXPECT_EQ(network.workspace_bytes(), 0U);
  const std::size_t activation = sizeof(float) * 32 * 11 * 11 * 11;
  std::vector<float> room(example.image.size());
  forward(network, example, room);
  EXPECT_LT(network.workspace_bytes(), 3 * activation);  // two activations, and the input, which is half an activation
  static_cast<void>(step(network, example));
  const auto gradients = sizeof(float) * network.parameters().size();
  EXPECT_LT(network.workspace_bytes(), (2 * 6 + 3) * activation + gradients);
}

TEST(Ffn, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Ffn({.depth = 0}), Error);
  EXPECT_THROW(Ffn({.features = 0}), Error);
  EXPECT_THROW(Ffn({.fov = {33, 32, 33}}), Error);
  EXPECT_THROW(Ffn({.fov = {33, 33, 33}, .deltas = {8, 8, 17}}), Error);
  Ffn network = network_of(1, 2);
  set_biases(network);
  std::vector<float> room(64), gradients(network.parameters().size());
  const View<float, 3> a{room.data(), {2, 3, 4}}, b{room.data(), {2, 4, 3}};
  const auto forward_all = [&](std::vector<FfnExample> batch) { network.forward(batch); };
  const auto train_all = [&](std::vector<FfnExample> batch, std::size_t room_for) {
    network.loss_and_gradients(batch, std::span(gradients).first(room_for), 1);
  };
  EXPECT_THROW(forward_all({{a, b, a, {}, {}}}), Error);
  EXPECT_THROW(forward_all({{a, a, b, {}, {}}}), Error);
  EXPECT_THROW(forward_all({{{}, {}, {}, {}, {}}}), Error);
  EXPECT_THROW(forward_all({{a, a, a, {}, {}}, {b, b, b, {}, {}}}), Error);
  EXPECT_THROW(train_all({{a, a, a, b, {}}}, gradients.size()), Error);
  EXPECT_THROW(train_all({{a, a, a, a, b}}, gradients.size()), Error);
  EXPECT_THROW(train_all({{a, a, a, a, {}}}, 3), Error);
  EXPECT_THROW(static_cast<void>(network.relu_masks()), Error);
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

class FfnByFourierTransforms : public testing::Test {
 protected:
  void SetUp() override {
    Philox random(3, 99);
    for (float& value : network_.parameters()) value += static_cast<float>(0.05 * random.normal());
    network_.parameters_changed();
    const std::string reason = network_.fft_unsupported({11, 11, 11});
    if (!reason.empty()) GTEST_SKIP() << "this processor has no Fourier transforms: " << reason;
  }

  // Its forward passes can use Fourier transforms, on processors that have kernels for them.
  Ffn network_{FfnOptions{.depth = 3, .fov = {11, 11, 11}, .deltas = {2, 2, 2}, .features = 16, .seed = 3}};
  Example example_{{11, 11, 11}};
};

TEST_F(FfnByFourierTransforms, ForwardIsTheSame) {
  std::vector<float> layers(example_.image.size()), fft(layers.size());
  forward(network_, example_, layers, Forward::layers);
  forward(network_, example_, fft, Forward::fft);
  EXPECT_LT(largest_difference(layers, fft), 1e-5);
  EXPECT_GT(largest_difference(layers, example_.logits), 0.1);
}

TEST_F(FfnByFourierTransforms, TrainingDoesNotChange) {
  const Step before = step(network_, example_);
  std::vector<float> room(example_.image.size());
  forward(network_, example_, room, Forward::fft);
  const Step after = step(network_, example_);
  EXPECT_EQ(before.logits, after.logits);
  EXPECT_EQ(before.gradients, after.gradients);
  std::vector<float> again(room.size());
  forward(network_, example_, again, Forward::fft);
  EXPECT_EQ(room, again);
}

TEST_F(FfnByFourierTransforms, TrainingUsesThemForEnoughTiles) {
  const Example few({11, 11, 11}), many({11, 33, 33});
  static_cast<void>(step(network_, few));
  EXPECT_EQ(network_.kernel_names().find("fft"), std::string::npos);
  static_cast<void>(step(network_, many));
  EXPECT_NE(network_.kernel_names().find("forward fft, backward_data fft, backward_weights"), std::string::npos);
}

TEST_F(FfnByFourierTransforms, KeptWeightsDoNotChangeTheBits) {
  const Example many({11, 33, 33});
  std::vector<float> anew(many.image.size()), kept(anew.size()), layers(anew.size());
  forward(network_, many, anew);
  forward(network_, many, kept, Forward::fft);
  EXPECT_EQ(anew, kept);
  forward(network_, many, layers, Forward::layers);
  EXPECT_NE(anew, layers);
  EXPECT_LT(largest_difference(anew, layers), 1e-5);
}

TEST_F(FfnByFourierTransforms, NewParametersCount) {
  std::vector<float> room(example_.image.size()), other(room.size()), layers(room.size());
  forward(network_, example_, room, Forward::fft);
  for (float& value : network_.parameters()) value *= 1.1F;
  network_.parameters_changed();
  forward(network_, example_, other, Forward::fft);
  EXPECT_GT(largest_difference(room, other), 1e-3);
  forward(network_, example_, layers, Forward::layers);
  EXPECT_LT(largest_difference(other, layers), 1e-5);
}

TEST_F(FfnByFourierTransforms, OtherSizesAreComputedLayerByLayer) {
  const Example other({9, 10, 11});
  std::vector<float> layers(other.image.size()), fft(layers.size());
  forward(network_, other, layers, Forward::layers);
  forward(network_, other, fft, Forward::fft);
  EXPECT_EQ(layers, fft);
}

TEST(Ffn, FourierTransformsAreRefusedByName) {
  Ffn direct({.fov = {11, 11, 11}, .deltas = {2, 2, 2}, .compute = kernels::Compute::fp32_direct});
  EXPECT_EQ(direct.fft_unsupported({11, 11, 11}), "compute is fp32-direct");
  const Ffn odd({.fov = {9, 9, 9}, .deltas = {2, 2, 2}});
  EXPECT_FALSE(odd.fft_unsupported({9, 9, 9}).empty());
}

}  // namespace
}  // namespace floodtide::nn
