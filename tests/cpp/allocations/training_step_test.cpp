// SPDX-License-Identifier: Apache-2.0
// A training step of a flood-filling network on one rank allocates nothing after the first steps. Source: docs/architecture.md,
// "The life of a training step".
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "allocations/counted.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/optim/optimizer.hpp"
#include "unit/train/run_fixture.hpp"

namespace floodtide::train {
namespace {

TEST(Counting, SeesVectorsAndArraysOfEveryThread) {
  set_num_threads(3);
  test::start_counting();
  const std::vector<int> vector(100);
  const AlignedBuffer<float> array(100);
  EXPECT_EQ(test::stop_counting(), 2);
  test::start_counting();
  parallel_for(7, [](std::int64_t) { const std::vector<int> own(10); });
  EXPECT_EQ(test::stop_counting(), 7);
  set_num_threads(1);
}

class AllocationsTest : public RunFixture {
 protected:
  /// Return the number of allocations in 90 steps of a trainer on one rank, after 40 steps in which buffers get their final
  /// size.
  [[nodiscard]] std::int64_t allocations(const std::string& optimizer, const TrainerOptions& options) const {
    const auto self = comm::self();
    const data::ExampleSource source = examples(2);
    nn::Ffn net = network();
    const auto one = trainer(net, source, *self, 2, optimizer, options);
    for (int i = 0; i < 40; ++i) static_cast<void>(one->step());
    static_cast<void>(one->take_metrics());
    test::start_counting();
    for (int i = 0; i < 90; ++i) static_cast<void>(one->step());
    const std::int64_t counted = test::stop_counting();
    EXPECT_GT(one->take_metrics().examples, 4) << "the walkers should have taken further examples";
    return counted;
  }
};

TEST_F(AllocationsTest, AWarmStepOfAnyOptimizerAllocatesNothing) {
  TrainerOptions options;
  options.average = 0.9;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const optim::OptimizerRow& row : optim::optimizer_rows()) {
      EXPECT_EQ(allocations(row.name, options), 0) << row.name << " on " << threads << " threads";
    }
  }
  set_num_threads(1);
}

TEST_F(AllocationsTest, AWarmStepOfSeveralPassesAllocatesNothing) {
  TrainerOptions options;
  options.accumulate = 3;
  EXPECT_EQ(allocations("adam", options), 0);
}

}  // namespace
}  // namespace floodtide::train
