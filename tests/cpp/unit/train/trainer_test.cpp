// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/trainer.hpp"

#include <atomic>
#include <cmath>
#include <limits>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "unit/train/run_fixture.hpp"

namespace floodtide::train {
namespace {

using TrainerTest = RunFixture;

void steps(Trainer& trainer, int count) {
  for (int i = 0; i < count; ++i) static_cast<void>(trainer.step());
}

TEST_F(TrainerTest, LossFalls) {
  double first = 0, last = 0;
  run(1, 4, [&](Trainer& trainer) {
    for (int i = 0; i < 200; ++i) {
      const double loss = trainer.step().loss;
      if (i < 20) first += loss;
      if (i >= 180) last += loss;
    }
  });
  EXPECT_LT(last, 0.7 * first);
}

TEST_F(TrainerTest, TwoWalkersGiveTheSameOnOneAndOnTwoRanks) {
  std::int64_t begun = 0;
  const auto one = run(1, 2, [&](Trainer& trainer) {
    steps(trainer, 50);
    begun = trainer.take_metrics().examples;
  });
  EXPECT_GT(begun, 6) << "the walkers should have changed patches several times";
  const auto two = run(2, 2, [](Trainer& trainer) { steps(trainer, 50); });
  // Two terms have one order of summation, whether a rank adds them or the allreduce does: equal bits.
  EXPECT_EQ(one, two);
}

TEST_F(TrainerTest, MoreWalkersThanRanksAgreeWithinRounding) {
  const auto one = run(1, 5, [](Trainer& trainer) { steps(trainer, 20); });
  const auto three = run(3, 5, [](Trainer& trainer) { steps(trainer, 20); });
  // Adam divides by the gradient's own size, so a rounding error moves an entry by at most the rate a step.
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    difference += std::pow(one[i] - three[i], 2);
    norm += std::pow(one[i], 2);
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e4 * std::numeric_limits<float>::epsilon());
}

TEST_F(TrainerTest, RepeatsBitForBitOnAnyNumberOfThreads) {
  const auto one = run(1, 2, [](Trainer& trainer) { steps(trainer, 20); });
  const auto again = run(1, 2, [](Trainer& trainer) {
    set_num_threads(3);
    steps(trainer, 20);
  });
  EXPECT_EQ(one, again);
}

TEST_F(TrainerTest, RequestsOfOneRankReachAll) {
  std::atomic<int> seen = 0;
  comm::run_threads(2, [&](comm::Communicator& communicator) {
    const data::ExampleSource source = examples(2);
    nn::Ffn net = network();
    const auto one = trainer(net, source, communicator, 2);
    if (one->step(communicator.rank() == 1 ? kCheckpoint | kStop : kNone).requests == (kCheckpoint | kStop)) ++seen;
    if (one->step().requests == kNone) ++seen;
  });
  EXPECT_EQ(seen, 4);
}

TEST_F(TrainerTest, MetricsAreCountsOverAllRanks) {
  comm::run_threads(2, [&](comm::Communicator& communicator) {
    const data::ExampleSource source = examples(3);
    nn::Ffn net = network();
    const auto one = trainer(net, source, communicator, 3);
    steps(*one, 4);
    const Metrics sums = one->take_metrics();
    EXPECT_EQ(sums.fovs, 12);
    EXPECT_EQ(sums.true_positive + sums.false_positive + sums.false_negative + sums.true_negative, 12 * 7 * 7 * 7);
    EXPECT_GT(sums.loss_sum, 0);
    EXPECT_EQ(one->take_metrics().fovs, 0);
  });
}

TEST_F(TrainerTest, ALossThatIsNotFiniteEndsAllRanksWithTheSameWords) {
  std::atomic<int> named = 0;
  comm::run_threads(2, [&](comm::Communicator& communicator) {
    const data::ExampleSource source = examples(2);
    nn::Ffn net = network();
    const auto one = trainer(net, source, communicator, 2);
    steps(*one, 2);
    if (communicator.rank() == 1) {
      net.parameters().back() = std::numeric_limits<float>::quiet_NaN();  // conv_lom/biases
      net.parameters_changed();
    }
    try {
      static_cast<void>(one->step());
    } catch (const Error& error) {
      const std::string text = error.what();
      named += error.code() == ErrorCode::numerical && text.find("step 2, walker 1") != std::string::npos &&
               text.find("slabs") != std::string::npos;
    }
    EXPECT_EQ(one->steps_done(), 2);
  });
  EXPECT_EQ(named, 2);
}

TEST_F(TrainerTest, ReplicasThatDifferAreFound) {
  EXPECT_THROW(comm::run_threads(2,
                                 [&](comm::Communicator& communicator) {
                                   const data::ExampleSource source = examples(2);
                                   nn::Ffn net = network();
                                   const auto one = trainer(net, source, communicator, 2);
                                   if (communicator.rank() == 1) net.parameters()[5] += 1.0F;
                                   one->check_replicas();
                                 }),
               Error);
}

TEST_F(TrainerTest, RefusesFewerWalkersThanRanks) {
  EXPECT_THROW(run(2, 1, [](Trainer&) {}), Error);
}

}  // namespace
}  // namespace floodtide::train
