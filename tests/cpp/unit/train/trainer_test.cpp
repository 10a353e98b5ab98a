// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/trainer.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <thread>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/watchdog.hpp"
#include "support/threads.hpp"
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
  // The sum of two terms does not depend on their order, so that one rank and two ranks give the same bits.
  EXPECT_EQ(one, two);
}

TEST_F(TrainerTest, MoreWalkersThanRanksAgreeWithinRounding) {
  const auto one = run(1, 5, [](Trainer& trainer) { steps(trainer, 20); });
  const auto three = run(3, 5, [](Trainer& trainer) { steps(trainer, 20); });
  // Adam divides by the size of the gradient. A rounding error can therefore change a parameter by the learning rate per step.
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

TEST_F(TrainerTest, WithExactnessOfWorkersBitsDependOnWalkersOnly) {
  TrainerOptions options;
  options.exactness = Exactness::workers;
  const auto one = run(1, 4, [](Trainer& trainer) { steps(trainer, 50); }, options);
  for (const int ranks : {2, 3, 4}) {
    for (const comm::AllreduceRow& row : comm::allreduce_rows()) {
      if (row.schedule == nullptr) continue;
      options.algorithm = row.name;
      EXPECT_EQ(run(ranks, 4, [](Trainer& trainer) { steps(trainer, 50); }, options), one) << ranks << ' ' << row.name;
    }
  }
  const auto usual = run(1, 4, [](Trainer& trainer) { steps(trainer, 1); });
  const auto exact = run(1, 4, [](Trainer& trainer) { steps(trainer, 1); }, options);
  for (std::size_t i = 0; i < usual.size(); ++i) EXPECT_NEAR(usual[i], exact[i], 1e-4) << "the same training";
}

TEST_F(TrainerTest, SumsDoNotDependOnBucketsWithTwoRanks) {
  TrainerOptions options;
  const auto whole = run(2, 3, [](Trainer& trainer) { steps(trainer, 10); }, options);
  for (const std::int64_t bytes : {4, 1000, 5000}) {
    options.bucket_bytes = bytes;
    EXPECT_EQ(run(2, 3, [](Trainer& trainer) { steps(trainer, 10); }, options), whole) << bytes;
  }
}

TEST_F(TrainerTest, AccumulatedFieldsOfViewMakeOneUpdate) {
  TrainerOptions options;
  options.accumulate = 3;
  for (const Exactness exactness : {Exactness::run, Exactness::workers}) {
    options.exactness = exactness;
    run(
        2, 2,
        [](Trainer& trainer) {
          steps(trainer, 4);
          EXPECT_EQ(trainer.steps_done(), 4);
          EXPECT_EQ(trainer.take_metrics().fovs, 4 * 2 * 3);
        },
        options);
  }
}

TEST_F(TrainerTest, WalkersThatAreThroughLeaveTheOthersTheirWeight) {
  for (const OnExhausted on_exhausted : {OnExhausted::join, OnExhausted::stop}) {
    TrainerOptions options;
    options.on_exhausted = on_exhausted;
    std::vector<std::int64_t> examples_begun;
    std::atomic<std::int64_t> wanted = 0;
    for (const int ranks : {1, 2}) {
      comm::run_threads(ranks, [&](comm::Communicator& communicator) {
        const data::ExampleSource source = examples(2, Box{{0, 0, 0}, {15, 11, 11}});  // few centres
        wanted = source.examples();
        ASSERT_LT(wanted, 16);
        nn::Ffn net = network();
        const auto one = trainer(net, source, communicator, 2, "adam", options);
        std::int64_t done = 0;
        while (!(one->step().requests & kStop)) ASSERT_LT(++done, 1000);
        const Metrics sums = one->take_metrics();
        one->check_replicas();
        if (communicator.rank() == 0) examples_begun.push_back(sums.examples);
      });
    }
    EXPECT_EQ(examples_begun[0], examples_begun[1]);
    if (on_exhausted == OnExhausted::join) {
      EXPECT_EQ(examples_begun[0], wanted) << "each example once";
    } else {
      EXPECT_GE(examples_begun[0], wanted / 2);
      EXPECT_LE(examples_begun[0], wanted);
    }
  }
}

/// Runs steps until all ranks meet after `total` updates, and returns the number of steps of this rank.
int steps_until(Trainer& trainer, std::int64_t total) {
  for (int done = 1;; ++done) {
    const StepReport report = trainer.step();
    if (report.met && trainer.steps_done() >= total) return done;
  }
}

TEST_F(TrainerTest, APartialAverageOfAllRanksIsTheSynchronousOne) {
  const auto expected = run(3, 3, [](Trainer& trainer) { steps(trainer, 20); });
  TrainerOptions options;
  options.mode = Mode::partial;
  options.contributors = 3;
  options.steps = 20;
  const auto partial = run(
      3, 3,
      [](Trainer& trainer) {
        EXPECT_EQ(steps_until(trainer, 20), 20);
        EXPECT_EQ(trainer.take_metrics().dropped, 0);
      },
      options);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(partial[i], expected[i], 1e-3);
}

TEST_F(TrainerTest, InModePartialAFailureEndsAllRanks) {
  TrainerOptions options;
  options.mode = Mode::partial;
  options.contributors = 2;
  std::atomic<int> failed = 0;
  EXPECT_THROW(comm::run_threads(3,
                                 [&](comm::Communicator& communicator) {
                                   const data::ExampleSource source = examples(3);
                                   nn::Ffn net = network();
                                   const auto one = trainer(net, source, communicator, 3, "adam", options);
                                   try {
                                     for (int i = 0; i < 1000; ++i) {
                                       if (i == 3 && communicator.rank() == 1) {
                                         net.parameters().back() = std::numeric_limits<float>::quiet_NaN();
                                         net.parameters_changed();
                                       }
                                       static_cast<void>(one->step());
                                     }
                                   } catch (const Error& error) {
                                     if (std::string(error.what()).find("walker 1") != std::string::npos) ++failed;
                                     throw;
                                   }
                                 }),
               Error);
  EXPECT_EQ(failed, 3);
}

TEST_F(TrainerTest, AHookOnBucketsSeesEveryGradientOnce) {
  const auto usual = run(2, 2, [](Trainer& trainer) { steps(trainer, 5); });
  std::mutex mutex;
  std::int64_t values = 0;
  comm::run_threads(2, [&](comm::Communicator& communicator) {
    const data::ExampleSource source = examples(2);
    nn::Ffn net = network();
    const auto one = trainer(net, source, communicator, 2);
    one->set_bucket_hook([&](const comm::Bucket& bucket) {
      comm::allreduce(communicator, bucket.values, comm::ReduceOp::sum);
      const std::lock_guard lock(mutex);
      values += std::ssize(bucket.values);
    });
    steps(*one, 5);
    if (communicator.rank() == 0) {
      EXPECT_EQ(std::vector<float>(net.parameters().begin(), net.parameters().end()), usual);
    }
  });
  EXPECT_EQ(values, 2 * 5 * (network().layout().size() + 16));
}

TEST_F(TrainerTest, TracesWhatItDoes) {
  run(2, 2, [&](Trainer& trainer) {
    trainer.trace(path("trace.json"));  // both ranks write the same file, because only its beginning is tested
    steps(trainer, 3);
    trainer.flush_trace();
  });
  std::ostringstream text;
  text << std::ifstream(path("trace.json")).rdbuf();
  for (const char* name : {"\"data\"", "\"compute\"", "\"allreduce\"", "\"update\""}) {
    EXPECT_NE(text.str().find(name), std::string::npos) << name;
  }
}

TEST_F(TrainerTest, AStuckRankIsNamedAndAllLeaveRecords) {
  TrainerOptions options;
  options.timeout_s = 0.5;
  std::mutex mutex;
  std::string reason;
  EXPECT_THROW(
      comm::run_threads(2,
                        [&](comm::Communicator& communicator) {
                          const data::ExampleSource source = examples(2);
                          nn::Ffn net = network();
                          TrainerOptions own = options;
                          own.record_path = path("flight-" + std::to_string(communicator.rank()) + ".json");
                          own.activity = std::make_shared<comm::ActivityLog>();
                          communicator.set_on_wait([&communicator, log = own.activity] { log->note_wait(communicator, ""); });
                          const auto report = [&](const std::string& why) {
                            const std::lock_guard lock(mutex);
                            reason = why;
                          };
                          const comm::Watchdog dog(communicator, *own.activity, {.report = report});
                          const auto one = trainer(net, source, communicator, 2, "adam", own);
                          steps(*one, 2);
                          if (communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
                          steps(*one, 1);
                        }),
      Error);
  EXPECT_NE(reason.find("of step 2"), std::string::npos) << reason;
  EXPECT_NE(reason.find("rank 1"), std::string::npos) << reason;
  EXPECT_TRUE(std::filesystem::exists(path("flight-0.json")));
  EXPECT_TRUE(std::filesystem::exists(path("flight-1.json")));
}

TEST_F(TrainerTest, RefusesFewerWalkersThanRanks) {
  EXPECT_THROW(run(2, 1, [](Trainer&) {}), Error);
}

}  // namespace
}  // namespace floodtide::train
