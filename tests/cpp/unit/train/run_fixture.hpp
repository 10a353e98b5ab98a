// SPDX-License-Identifier: Apache-2.0
// A very small training run: a volume on disk with two slabs that the network must separate, and all arguments of a trainer.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "floodtide/comm/communicator.hpp"
#include "floodtide/data/examples.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/train/trainer.hpp"

namespace floodtide::train {

class RunFixture : public testing::Test {
 protected:
  static constexpr Vec3 kFov{7, 7, 7};
  static constexpr Vec3 kDeltas{2, 2, 2};

  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] data::SourceOptions source_options() const;
  [[nodiscard]] data::ExampleSource examples(std::int64_t walkers, std::optional<Box> box = std::nullopt) const;
  [[nodiscard]] static nn::Ffn network(int depth = 2);
  [[nodiscard]] static std::unique_ptr<Trainer> trainer(nn::Ffn& network, const data::ExampleSource& examples,
                                                        comm::Communicator& communicator, std::int64_t walkers,
                                                        const std::string& optimizer = "adam",
                                                        const TrainerOptions& options = {});

  /// Trains on `ranks` threads: calls body(trainer) on every rank, and returns the final parameters of rank 0.
  std::vector<float> run(int ranks, std::int64_t walkers, const std::function<void(Trainer&)>& body,
                         const TrainerOptions& options = {}) const;
  /// Does the same with body(trainer, rank).
  std::vector<float> run_ranks(int ranks, std::int64_t walkers, const std::function<void(Trainer&, int)>& body,
                               const TrainerOptions& options) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace floodtide::train
