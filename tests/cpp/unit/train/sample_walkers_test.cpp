// SPDX-License-Identifier: Apache-2.0
// Training of U-Nets on slices with one round object each, which is brighter than the background.
#include "floodtide/train/sample_walkers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/data/slices.hpp"
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
    std::vector<std::int32_t> patients;
    Philox random(3, 0);
    for (std::int64_t z = 0; z < kStack[0]; ++z) {
      const auto cy = static_cast<double>(4 + random.below(8)), cx = static_cast<double>(4 + random.below(8));
      patients.push_back(static_cast<std::int32_t>(100 + z / 2));
      for (std::int64_t y = 0; y < kStack[1]; ++y) {
        for (std::int64_t x = 0; x < kStack[2]; ++x) {
          const bool inside = std::hypot(static_cast<double>(y) - cy, static_cast<double>(x) - cx) < 4;
          masks.push_back(inside ? 1 : 0);
          images.push_back(static_cast<float>((inside ? 1.0 : -0.5) + 0.3 * random.normal()));
        }
      }
    }
    write("stack.h5", images, masks, patients);
    images[37] = std::numeric_limits<float>::infinity();
    write("outlier.h5", images, masks, patients);
  }

  void write(const std::string& name, const std::vector<float>& images, const std::vector<std::uint8_t>& masks,
             const std::vector<std::int32_t>& patients) const {
    data::Hdf5File file = data::Hdf5File::create(folder_.file(name));
    file.write_array<float>("image", kStack, images);
    file.write_array<std::uint8_t>("mask", kStack, masks);
    file.write_array<std::int32_t>("patient", std::vector<std::int64_t>{kStack[0]}, patients);
    file.commit();
  }

  [[nodiscard]] std::unique_ptr<data::SliceSource> slices(std::int64_t walkers, const std::string& name = "stack.h5") const {
    const std::string path = folder_.file(name);
    data::SliceOptions options;
    options.order = {.walkers = walkers, .batch = kBatch, .seed = 5};
    options.augmentation.flip_x = true;
    return std::make_unique<data::SliceSource>(
        std::vector<data::SliceStack>{{path + ":image", path + ":mask", path + ":patient"}}, options);
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
