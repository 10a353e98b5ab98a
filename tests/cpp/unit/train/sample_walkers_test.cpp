// SPDX-License-Identifier: Apache-2.0
// Training of U-Nets on whole sections with one round object each, which is brighter than the background.
#include "floodtide/train/walkers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/data/patch_source.hpp"
#include "floodtide/nn/unet.hpp"
#include "floodtide/train/segmentation_scores.hpp"
#include "floodtide/train/trainer.hpp"
#include "support/threads.hpp"
#include "unit/data/files.hpp"

namespace floodtide::train {
namespace {

constexpr Vec3 kStack{12, 16, 16};
constexpr std::int64_t kBatch = 2;

class SampleWalkersTest : public testing::Test {
 protected:
  struct Run {
    int ranks = 1;
    std::int64_t walkers = 2;
    nn::SegmentationLoss loss{};
    bool synchronised = false;
    double dropout = 0;
    TrainerOptions options{};
  };

  void SetUp() override {
    set_num_threads(1);
    std::vector<float> images;
    std::vector<std::uint8_t> masks;
    Philox random(3, 0);
    for (std::int64_t z = 0; z < kStack[0]; ++z) {
      const auto cy = static_cast<double>(4 + random.below(8)), cx = static_cast<double>(4 + random.below(8));
      for (std::int64_t y = 0; y < kStack[1]; ++y) {
        for (std::int64_t x = 0; x < kStack[2]; ++x) {
          const bool inside = std::hypot(static_cast<double>(y) - cy, static_cast<double>(x) - cx) < 4;
          masks.push_back(inside ? 1 : 0);
          images.push_back(static_cast<float>((inside ? 1.0 : -0.5) + 0.3 * random.normal()));
        }
      }
    }
    write("stack.h5", images, masks);
    images[37] = std::numeric_limits<float>::infinity();
    write("outlier.h5", images, masks);
  }

  void write(const std::string& name, const std::vector<float>& images, const std::vector<std::uint8_t>& masks) const {
    data::Hdf5File file = data::Hdf5File::create(folder_.file(name));
    file.write_array<float>("image", kStack, images);
    file.write_array<std::uint8_t>("mask", kStack, masks);
    file.commit();
  }

  /// Return the sections of a stack as samples. Each patient has two of them.
  [[nodiscard]] std::unique_ptr<data::PatchSource> slices(std::int64_t walkers, const std::string& name = "stack.h5",
                                                          std::shared_ptr<const data::Targets> targets = data::class_targets(2),
                                                          data::LabelMap map = {}) const {
    const std::string path = folder_.file(name);
    data::PatchOptions options;
    options.patch = {1, kStack[1], kStack[2]};
    options.whole = true;
    options.order = {.walkers = walkers, .batch = kBatch, .seed = 5};
    options.augmentation.reflectable_axes = {2};
    std::vector<data::Region> regions;
    std::vector<std::string> patients;
    for (std::int64_t patient = 0; patient < kStack[0] / 2; ++patient) {
      regions.push_back({0, {{2 * patient, 0, 0}, {2, kStack[1], kStack[2]}}, patient});
      patients.push_back(std::to_string(patient));
    }
    const data::LabelledImage stack{name, {{path + ":image"}}, {{path + ":mask", std::move(map)}}, {}};
    return std::make_unique<data::PatchSource>(std::vector{stack}, regions, patients, std::move(targets), options);
  }

  [[nodiscard]] static nn::UNet network(const Run& run) {
    nn::UNetOptions options;
    options.depth = 2;
    options.features = 16;
    options.seed = 11;
    options.synchronised = run.synchronised;
    options.dropout = run.dropout;
    return nn::UNet(options);
  }

  /// Calls body(trainer, rank) on every rank, and returns the parameters of rank 0.
  std::vector<float> train(const Run& run, const std::function<void(Trainer&, int)>& body,
                           const std::string& stack = "stack.h5") const {
    std::vector<float> parameters;
    comm::run_threads(run.ranks, [&](comm::Communicator& communicator) {
      set_num_threads(1);
      const auto source = slices(run.walkers, stack);
      nn::UNet net = network(run);
      const WalkersOptions walkers{
          .walkers = run.walkers, .rank = communicator.rank(), .ranks = communicator.size(), .seed = 5};
      Trainer trainer(make_sample_walkers(net, *source, walkers, run.loss), optim::make_optimizer("adam", {}, net.layout()),
                      optim::make_schedule("constant", {{"base_lr", 2e-3}}), optim::Scaling("none", {}, {}), communicator,
                      run.options);
      body(trainer, communicator.rank());
      trainer.check_replicas();
      if (communicator.rank() == 0) parameters.assign(net.parameters().begin(), net.parameters().end());
    });
    return parameters;
  }

  data::TemporaryFolder folder_;
};

void steps(Trainer& trainer, int count) {
  for (int i = 0; i < count; ++i) static_cast<void>(trainer.step());
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(difference / norm);
}

TEST_F(SampleWalkersTest, DiceRisesFarAboveWhatNeedsNoNetwork) {
  nn::UNet net = network({});
  const auto source = slices(2);
  comm::run_threads(1, [&](comm::Communicator& communicator) {
    Trainer trainer(make_sample_walkers(net, *source, {.walkers = 2}, {}), optim::make_optimizer("adam", {}, net.layout()),
                    optim::make_schedule("constant", {{"base_lr", 5e-3}}), optim::Scaling("none", {}, {}), communicator, {});
    const double before = score_segmentation(net, *source, communicator).dice.pooled(1).value_or(0);
    steps(trainer, 60);
    const SampleScores after = score_segmentation(net, *source, communicator);
    EXPECT_GT(after.dice.pooled(1).value_or(0), 0.9);
    EXPECT_GT(after.dice.pooled(1).value_or(0), before + 0.2);
    EXPECT_EQ(after.samples, kStack[0]);
    EXPECT_EQ(after.dice.groups(), kStack[0] / 2);
  });
}

TEST_F(SampleWalkersTest, ScoresDoNotDependOnTheNumberOfRanks) {
  const auto source = slices(1);
  std::vector<std::vector<std::int64_t>> counts;
  std::vector<double> entropies;
  for (const int ranks : {1, 2, 3}) {
    comm::run_threads(ranks, [&](comm::Communicator& communicator) {
      set_num_threads(1);
      nn::UNet net = network({});
      const SampleScores scores = score_segmentation(net, *source, communicator);
      if (communicator.rank() != 0) return;
      counts.emplace_back(scores.dice.values().begin(), scores.dice.values().end());
      entropies.push_back(scores.cross_entropy);
    });
  }
  EXPECT_EQ(counts[1], counts[0]);
  EXPECT_EQ(counts[2], counts[0]);
  EXPECT_EQ(entropies, std::vector<double>(3, entropies[0]));
}

// Statistics and loss are those of each walker. The sum of two terms does not depend on their order.
TEST_F(SampleWalkersTest, TwoWalkersGiveTheSameBitsOnOneAndOnTwoRanks) {
  Run run;
  run.options.exactness = Exactness::workers;
  const auto one = train(run, [](Trainer& trainer, int) { steps(trainer, 12); });
  run.ranks = 2;
  const auto two = train(run, [](Trainer& trainer, int) { steps(trainer, 12); });
  EXPECT_EQ(one, two);
}

// Dice over the batch, and synchronised statistics: all sums over ranks in the middle of a step.
TEST_F(SampleWalkersTest, TheGlobalBatchIsTheSameOnAnyNumberOfRanks) {
  Run run;
  run.walkers = 3;
  run.loss.over_batch = true;
  run.synchronised = true;
  run.dropout = 0.2;
  const auto one = train(run, [](Trainer& trainer, int) { steps(trainer, 2); });
  for (const int ranks : {2, 3}) {
    run.ranks = ranks;
    const auto more = train(run, [](Trainer& trainer, int) { steps(trainer, 2); });
    // Adam divides by the size of the gradient. A rounding error can therefore change a parameter by the learning rate per
    // step.
    EXPECT_LT(distance(one, more), 1e4 * std::numeric_limits<float>::epsilon()) << ranks << " ranks";
  }
}

TEST_F(SampleWalkersTest, ResumedRunHasTheBitsOfTheUninterruptedOne) {
  Run run;
  run.ranks = 2;
  run.dropout = 0.2;
  const auto whole = train(run, [](Trainer& trainer, int) { steps(trainer, 10); });
  const std::string file = folder_.file("stop.h5");
  train(run, [&](Trainer& trainer, int) {
    steps(trainer, 4);  // these steps end in the second epoch
    trainer.save(file, "");
  });
  const auto resumed = train(run, [&](Trainer& trainer, int) {
    trainer.load(file);
    EXPECT_EQ(trainer.steps_done(), 4);
    steps(trainer, 6);
  });
  EXPECT_EQ(resumed, whole);
}

TEST_F(SampleWalkersTest, ARankThatFailsTakesAllOutOfTheStep) {
  for (const bool over_batch : {false, true}) {
    Run run;
    run.ranks = 2;
    run.loss.over_batch = over_batch;
    run.synchronised = over_batch;
    std::atomic<int> named = 0;
    train(
        run,
        [&](Trainer& trainer, int) {
          try {
            steps(trainer, 20);
          } catch (const Error& error) {
            const std::string what = error.what();
            if (what.find("the loss is") != std::string::npos || what.find("not a number") != std::string::npos ||
                what.find("finite") != std::string::npos) {
              ++named;
            }
          }
        },
        "outlier.h5");
    EXPECT_EQ(named, 2) << "over the batch: " << over_batch;
  }
}

/// A network beside the U-Net: the logit of a voxel is a weight times its intensity, plus a bias.
class Line final : public nn::SampleNetwork {
 public:
  Line() : SampleNetwork(2) {
    layout_.add("weight", {1});
    layout_.add("bias", {1});
  }
  [[nodiscard]] std::string_view kind() const noexcept override { return "line"; }
  [[nodiscard]] std::string summary() const override { return "a line"; }
  [[nodiscard]] const ParameterLayout& layout() const noexcept override { return layout_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept override { return 0; }
  [[nodiscard]] std::int64_t in_channels() const noexcept override { return 1; }
  [[nodiscard]] std::int64_t outputs() const noexcept override { return 1; }
  [[nodiscard]] nn::Output output() const noexcept override { return nn::Output::sigmoid; }
  [[nodiscard]] Vec3 total_pool() const noexcept override { return {1, 1, 1}; }
  [[nodiscard]] std::int64_t sums_per_pass(const nn::SegmentationLoss&) const noexcept override { return 0; }
  [[nodiscard]] std::int64_t longest_sum() const noexcept override { return 0; }

  void forward(View<const float, 5> images, View<float, 5> out_probabilities) override {
    for (std::int64_t i = 0; i < images.size(); ++i) out_probabilities.data()[i] = 1 / (1 + std::exp(-logit(images.data()[i])));
  }
  nn::LossReport loss_and_gradients(const nn::SampleBatch& batch, const nn::SegmentationLoss& loss, std::span<float> gradients,
                                    double scale, const nn::OnReady& on_ready, const nn::SumOverRanks& sum) override {
    Tensor<float, 5> logits(batch.images.shape()), probabilities(logits.shape()), by_logits(logits.shape());
    for (std::int64_t i = 0; i < logits.size(); ++i) logits.data()[i] = logit(batch.images.data()[i]);
    const nn::LossReport report =
        nn::segmentation_loss(loss, output(), logits.view(), batch.truth, probabilities.view(), by_logits.view(), sum);
    for (std::int64_t i = 0; i < logits.size(); ++i) {
      gradients[0] += static_cast<float>(scale) * by_logits.data()[i] * batch.images.data()[i];
      gradients[1] += static_cast<float>(scale) * by_logits.data()[i];
    }
    for (const std::size_t entry : {1U, 0U}) {
      if (on_ready) on_ready(entry);
    }
    return report;
  }

 private:
  [[nodiscard]] float logit(float intensity) const { return parameters()[0] * intensity + parameters()[1]; }

  ParameterLayout layout_;
};

TEST_F(SampleWalkersTest, AnyNetworkOfTheInterfaceIsTrainedAndScored) {
  Line net;
  const auto source = slices(2, "stack.h5", data::affinity_targets({.offsets = {{0, 0, 1}}}));
  comm::run_threads(1, [&](comm::Communicator& communicator) {
    Trainer trainer(make_sample_walkers(net, *source, {.walkers = 2}, {}), optim::make_optimizer("adam", {}, net.layout()),
                    optim::make_schedule("constant", {{"base_lr", 0.1}}), optim::Scaling("none", {}, {}), communicator, {});
    const double before = score_segmentation(net, *source, communicator).cross_entropy;
    steps(trainer, 60);
    const SampleScores after = score_segmentation(net, *source, communicator);
    EXPECT_LT(after.cross_entropy, before / 2);
    ASSERT_EQ(after.binary_channels.size(), 1);
    EXPECT_GT(after.binary_channels[0].counts(0).scores().f1, 0.8);
    EXPECT_TRUE(after.soft_channels.empty());
  });
}

/// Return the scores of a new network with sigmoids, which are the same on 1 to 3 ranks.
SampleScores scores_on_any_number_of_ranks(const data::PatchSource& source, nn::UNet& net) {
  std::vector<SampleScores> found;
  for (const int ranks : {1, 2, 3}) {
    comm::run_threads(ranks, [&](comm::Communicator& communicator) {
      set_num_threads(1);
      nn::UNet own(net.options());
      SampleScores scores = score_segmentation(own, source, communicator);
      if (communicator.rank() == 0) found.push_back(std::move(scores));
    });
    const SampleScores &first = found.front(), &now = found.back();
    EXPECT_EQ(now.cross_entropy, first.cross_entropy) << ranks << " ranks";
    for (std::size_t k = 0; k < first.soft_channels.size(); ++k) {
      EXPECT_EQ(now.soft_channels[k].mean_squared_error, first.soft_channels[k].mean_squared_error) << ranks << " ranks";
      EXPECT_EQ(now.soft_channels[k].variance, first.soft_channels[k].variance) << ranks << " ranks";
      EXPECT_EQ(now.soft_channels[k].voxels, first.soft_channels[k].voxels) << ranks << " ranks";
    }
    for (std::size_t k = 0; k < first.binary_channels.size(); ++k) {
      EXPECT_TRUE(std::ranges::equal(now.binary_channels[k].values(), first.binary_channels[k].values())) << ranks << " ranks";
    }
  }
  return std::move(found.front());
}

nn::UNet with_outputs(int outputs) {
  return nn::UNet({.classes = outputs, .depth = 2, .features = 16, .output = nn::Output::sigmoid, .seed = 11});
}

TEST_F(SampleWalkersTest, SoftChannelsHaveErrorsComparedWithTheBestConstant) {
  const auto source =
      slices(1, "stack.h5", data::affinity_targets({.offsets = {{0, 0, -1}, {0, -1, 0}}, .descriptors = {1, 2, 2}}));
  nn::UNet net = with_outputs(12);
  const SampleScores scores = scores_on_any_number_of_ranks(*source, net);
  EXPECT_EQ(scores.binary_channels.size(), 2);
  ASSERT_EQ(scores.soft_channels.size(), 10);
  for (std::size_t k = 0; k < 10; ++k) {
    double voxels = 0, error = 0, target = 0, square = 0;
    for (std::int64_t number = 0; number < source->fixed_size(); ++number) {
      const data::Sample sample = source->fixed(number);
      Tensor<float, 5> out({1, 1, kStack[1], kStack[2], 12});
      net.forward(View<const float, 5>(sample.image.data(), {1, 1, kStack[1], kStack[2], 1}), out.view());
      for (std::int64_t i = 2 + static_cast<std::int64_t>(k); i < out.size(); i += 12) {
        if (sample.weights.data()[i] == 0) continue;
        const double truth = sample.targets.data()[i];
        voxels += 1;
        error += std::pow(truth - out.data()[i], 2);
        target += truth;
        square += truth * truth;
      }
    }
    EXPECT_GT(voxels, 100);
    EXPECT_EQ(scores.soft_channels[k].voxels, static_cast<std::int64_t>(voxels));
    EXPECT_NEAR(scores.soft_channels[k].mean_squared_error, error / voxels, 1e-9) << k;
    EXPECT_NEAR(scores.soft_channels[k].variance, square / voxels - std::pow(target / voxels, 2), 1e-9) << k;
  }
}

TEST_F(SampleWalkersTest, ConfusionCountsTheLabelledVoxels) {
  data::LabelMap map;
  map.values = {{1, 1}, {0, data::kNoLabel}};
  const auto source = slices(1, "stack.h5", data::class_targets(2), map);
  nn::UNet net = network({});
  comm::run_threads(2, [&](comm::Communicator& communicator) {
    set_num_threads(1);
    nn::UNet own(net.options());
    const SampleScores scores = score_segmentation(own, *source, communicator);
    EXPECT_EQ(scores.dice.confusion(0, 0) + scores.dice.confusion(0, 1), 0);
    EXPECT_EQ(scores.dice.confusion(1, 0) + scores.dice.confusion(1, 1), source->label_counts()[1]);
  });
}

TEST_F(SampleWalkersTest, MetricsCountLabelledVoxelsOfClassesAndBinaryChannels) {
  const auto metrics_of = [&](nn::SampleNetwork& net, const data::PatchSource& source) {
    Metrics metrics;
    comm::run_threads(1, [&](comm::Communicator& communicator) {
      Trainer trainer(make_sample_walkers(net, source, {.walkers = 1}, {}), optim::make_optimizer("adam", {}, net.layout()),
                      optim::make_schedule("constant", {}), optim::Scaling("none", {}, {}), communicator, {});
      steps(trainer, static_cast<int>(kStack[0] / kBatch));
      metrics = trainer.take_metrics();
    });
    return metrics;
  };
  const auto all = [](const Metrics& m) { return m.true_positive + m.false_positive + m.false_negative + m.true_negative; };

  data::LabelMap map;
  map.values = {{0, data::kNoLabel}};
  nn::UNet classes = network({});
  const auto sparse = slices(1, "stack.h5", data::class_targets(2), map);
  EXPECT_EQ(all(metrics_of(classes, *sparse)), sparse->label_counts()[1]);

  nn::UNet distance = with_outputs(1);
  EXPECT_EQ(all(metrics_of(distance, *slices(1, "stack.h5", data::distance_targets(2, {1, 1, 1})))), 0);

  nn::UNet described = with_outputs(11);
  const auto source = slices(1, "stack.h5", data::affinity_targets({.offsets = {{0, 0, -1}}, .descriptors = {1, 2, 2}}));
  EXPECT_EQ(all(metrics_of(described, *source)), kStack[0] * kStack[1] * (kStack[2] - 1));
}

TEST_F(SampleWalkersTest, SamplesThatDoNotFitTheNetworkAreRefused) {
  const auto source = slices(2);
  nn::UNetOptions options;
  options.depth = 6;  // the network needs multiples of 32 voxels
  nn::UNet deep(options);
  EXPECT_THROW(static_cast<void>(make_sample_walkers(deep, *source, {.walkers = 2}, {})), Error);
  options.depth = 2;
  options.classes = 3;
  nn::UNet three(options);
  EXPECT_THROW(static_cast<void>(make_sample_walkers(three, *source, {.walkers = 2}, {})), Error);
  nn::UNet net = network({});
  EXPECT_THROW(static_cast<void>(make_sample_walkers(net, *source, {.walkers = 3}, {})), Error);
}

TEST_F(SampleWalkersTest, ALossOverTheBatchRefusesWhatSumsSingleWalkers) {
  Run run;
  run.loss.over_batch = true;
  run.options.exactness = Exactness::workers;
  EXPECT_THROW(train(run, [](Trainer&, int) {}), Error);
}

}  // namespace
}  // namespace floodtide::train
