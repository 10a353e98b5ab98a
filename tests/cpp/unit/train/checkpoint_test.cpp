// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <filesystem>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/train/trainer.hpp"
#include "unit/train/run_fixture.hpp"

namespace floodtide::train {
namespace {

using CheckpointTest = RunFixture;

void steps(Trainer& trainer, int count) {
  for (int i = 0; i < count; ++i) static_cast<void>(trainer.step());
}

ErrorCode code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST_F(CheckpointTest, ResumedRunHasTheBitsOfTheUninterruptedOne) {
  for (const int ranks : {1, 2}) {
    const auto whole = run(ranks, 2, [](Trainer& trainer) { steps(trainer, 30); });
    for (const int stop : {0, 1, 7, 22}) {
      const std::string file = path("stop.h5");
      run(ranks, 2, [&](Trainer& trainer) {
        steps(trainer, stop);
        trainer.save(file, "");
      });
      const auto resumed = run(ranks, 2, [&](Trainer& trainer) {
        trainer.load(file);
        EXPECT_EQ(trainer.steps_done(), stop);
        steps(trainer, 30 - stop);
      });
      EXPECT_EQ(resumed, whole) << ranks << " ranks, interrupted after " << stop << " steps";
    }
  }
}

TEST_F(CheckpointTest, ResumesOnAnotherNumberOfRanks) {
  const auto whole = run(1, 2, [](Trainer& trainer) { steps(trainer, 24); });
  const std::string file = path("two.h5");
  run(2, 2, [&](Trainer& trainer) {
    steps(trainer, 9);
    trainer.save(file, "");
  });
  const auto resumed = run(1, 2, [&](Trainer& trainer) {
    trainer.load(file);
    steps(trainer, 15);
  });
  EXPECT_EQ(resumed, whole);
}

TEST_F(CheckpointTest, RefusesWhatDoesNotBelongToTheRun) {
  const std::string file = path("run.h5");
  run(1, 2, [&](Trainer& trainer) { trainer.save(file, ""); });
  const auto load_with = [&](int depth, std::int64_t walkers, const std::string& optimizer) {
    return code_of([&] {
      const auto communicator = comm::self();
      const data::ExampleSource source = examples(walkers);
      nn::Ffn net = network(depth);
      trainer(net, source, *communicator, walkers, optimizer)->load(file);
    });
  };
  EXPECT_EQ(load_with(3, 2, "adam"), ErrorCode::invalid_file);
  EXPECT_EQ(load_with(2, 3, "adam"), ErrorCode::invalid_file);
  EXPECT_EQ(load_with(2, 2, "sgd"), ErrorCode::invalid_file);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  EXPECT_EQ(load_with(2, 2, "adam"), ErrorCode::invalid_file);
}

TEST_F(CheckpointTest, AFailedWriteFailsOnAllRanksAndKeepsTheOldFile) {
  const std::string file = path("kept.h5");
  run(1, 2, [&](Trainer& trainer) { trainer.save(file, "first"); });
  const auto size = std::filesystem::file_size(file);
  std::atomic<int> failed = 0;
  run(2, 2, [&](Trainer& trainer) {
    steps(trainer, 1);
    if (code_of([&] { trainer.save(path("no/such/folder/x.h5"), ""); }) == ErrorCode::io) ++failed;
    steps(trainer, 1);  // the run can go on
  });
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(std::filesystem::file_size(file), size);
}

}  // namespace
}  // namespace floodtide::train
