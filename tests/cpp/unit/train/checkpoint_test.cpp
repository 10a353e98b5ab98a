// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/train/network_file.hpp"
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
    steps(trainer, 1);  // the run can continue
  });
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(std::filesystem::file_size(file), size);
}

/// Return all arrays of a checkpoint.
std::vector<std::vector<double>> arrays_of(const std::string& path) {
  const data::Hdf5File file = data::Hdf5File::open(path);
  std::vector<std::vector<double>> result;
  const auto add = [&](const auto& array) { result.emplace_back(array.values.begin(), array.values.end()); };
  for (const std::string& name : file.datasets()) {
    switch (file.info(name).type) {
      case data::ElementType::float32: add(file.read_array<float>(name)); break;
      case data::ElementType::int64: add(file.read_array<std::int64_t>(name)); break;
      default: add(file.read_array<std::uint32_t>(name)); break;
    }
  }
  return result;
}

TEST_F(CheckpointTest, EveryFlippedBitIsNoticedOrChangesNothing) {
  const std::string file = path("run.h5"), again = path("again.h5");
  const auto communicator = comm::self();
  const data::ExampleSource source = examples(2);
  nn::Ffn net = network();
  const auto trained = trainer(net, source, *communicator, 2);
  steps(*trained, 5);
  trained->save(file, "a configuration");
  const auto expected = arrays_of(file);
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  std::mt19937_64 random(7);
  int refused = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const auto at = static_cast<std::streamoff>(random() % std::filesystem::file_size(file));
    const auto bit = static_cast<char>(1 << random() % 8);
    const auto flip = [&] {
      bytes.seekg(at);
      const auto byte = static_cast<char>(bytes.get() ^ bit);
      bytes.seekp(at);
      bytes.put(byte).flush();
    };
    flip();
    try {
      trained->load(file);
      EXPECT_EQ(trained->steps_done(), 5);
      trained->save(again, "");
      ASSERT_EQ(arrays_of(again), expected) << "byte " << at << ", bit " << int{bit};
    } catch (const Error& error) {
      ++refused;
      ASSERT_EQ(error.code(), ErrorCode::invalid_file) << error.what();
      ASSERT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
    }
    flip();
  }
  EXPECT_GT(refused, 800);
  trained->load(file);
}

TEST_F(CheckpointTest, ARefusedFileChangesNothing) {
  const std::string file = path("run.h5"), now = path("now.h5");
  TrainerOptions options;
  options.average = 0.9;
  const auto communicator = comm::self();
  const data::ExampleSource source = examples(2);
  nn::Ffn net = network();
  const auto trained = trainer(net, source, *communicator, 2, "adam", options);
  steps(*trained, 5);
  trained->save(file, "");
  steps(*trained, 2);
  trained->save(now, "");
  const auto before = arrays_of(now);
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  std::mt19937_64 random(8);
  std::set<std::string> damaged;
  for (int trial = 0; trial < 300; ++trial) {
    const auto at = static_cast<std::streamoff>(random() % std::filesystem::file_size(file));
    const auto flip = [&] {
      bytes.seekg(at);
      const auto byte = static_cast<char>(bytes.get() ^ 1);
      bytes.seekp(at);
      bytes.put(byte).flush();
    };
    flip();
    try {
      trained->load(file);
      steps(*trained, 2);
    } catch (const Error& error) {
      for (const char* part : {"parameters", "average", "optimizer", "walker"}) {
        if (std::string(error.what()).find(part) != std::string::npos) damaged.insert(part);
      }
    }
    flip();
    ASSERT_EQ(trained->steps_done(), 7);
    trained->save(now, "");
    ASSERT_EQ(arrays_of(now), before) << "byte " << at;
  }
  EXPECT_EQ(damaged, (std::set<std::string>{"parameters", "average", "optimizer", "walker"}));
}

TEST_F(CheckpointTest, AFileThatOneRankRefusesOrThatDiffersChangesNothingOnAnyRank) {
  const std::string file = path("run.h5"), later = path("later.h5"), now = path("now.h5"), cut = path("cut.h5");
  run(2, 2, [&](Trainer& trainer) {
    steps(trainer, 3);
    trainer.save(file, "");
    steps(trainer, 1);
    trainer.save(later, "");
  });
  std::filesystem::copy_file(file, cut);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  const auto whole = run(2, 2, [](Trainer& trainer) { steps(trainer, 5); });
  for (const auto& [other, expected] : {std::pair(cut, ErrorCode::invalid_file), {later, ErrorCode::communication}}) {
    const auto parameters = run_ranks(2, 2,
                                      [&](Trainer& trainer, int rank) {
                                        steps(trainer, 2);
                                        EXPECT_EQ(code_of([&] { trainer.load(rank == 0 ? file : other); }), expected);
                                        EXPECT_EQ(trainer.steps_done(), 2);
                                        steps(trainer, 3);
                                      },
                                      {});
    EXPECT_EQ(parameters, whole) << other;
  }
}

/// Return the path of a checkpoint in which one attribute has another value. The file is written here, with valid checksums.
std::string with_attribute(const std::string& path, const std::string& name, std::int64_t value) {
  data::Hdf5File file = data::Hdf5File::create(path);
  const std::vector<std::int64_t> three{3}, small{4}, weights{3, 3, 3, 2, 4};
  file.write_attribute("/", "format", std::string(kCheckpointFormat));
  file.write_attribute("/", "kind", std::string("ffn"));
  const std::vector<std::pair<std::string, std::int64_t>> numbers{
      {"format_version", kCheckpointVersion}, {"depth", 2}, {"features", 4}};
  for (const auto& [attribute, usual] : numbers) file.write_attribute("/", attribute, attribute == name ? value : usual);
  file.write_attribute<std::int64_t>("/", "fov", three, std::vector<std::int64_t>(3, name == "fov" ? value : 7));
  file.write_attribute<std::int64_t>("/", "deltas", three, std::vector<std::int64_t>(3, name == "deltas" ? value : 2));
  nn::FfnOptions options;
  options.depth = 2;
  options.features = 4;
  const ParameterLayout layout = nn::parameter_layout(options);
  write_parameters(file, kParametersGroup, layout, std::vector<float>(static_cast<std::size_t>(layout.size()), 0.5F));
  file.commit();
  return path;
}

TEST_F(CheckpointTest, AttributesAreCheckedAgainstRangesAndArrays) {
  EXPECT_EQ(empty_network(data::Hdf5File::open(with_attribute(path("good.h5"), "none", 0)))->summary(),
            "a flood-filling network of depth 2 with 4 features");
  const std::vector<std::pair<std::string, std::int64_t>> wrong{
      {"format_version", 2},
      {"depth", 0},
      {"depth", -1},
      {"depth", 3},  // the file has the arrays of two modules
      {"depth", 1},
      {"depth", 1'048'577},
      {"depth", (std::int64_t{1} << 32) + 2},  // its lowest 32 bits are 2
      {"features", 0},
      {"features", 5},
      {"features", (std::int64_t{1} << 32) + 4},
      {"features", std::numeric_limits<std::int64_t>::max()},
      {"fov", 8},
      {"fov", -7},
      {"fov", std::int64_t{1} << 40},
      {"deltas", 4},
      {"deltas", -1},
  };
  for (const auto& [name, value] : wrong) {
    const data::Hdf5File file = data::Hdf5File::open(with_attribute(path("wrong.h5"), name, value));
    const ErrorCode code = code_of([&] { static_cast<void>(empty_network(file)); });
    EXPECT_EQ(code, ErrorCode::invalid_file) << name << " " << value;
  }
}

TEST_F(CheckpointTest, RefusesWeightsThatAreNotFinite) {
  nn::Ffn net = network();
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const std::string file = path("odd.h5");
    net.parameters()[400] = odd;
    {
      data::Hdf5File writer = data::Hdf5File::create(file);
      write_network(writer, net);
      writer.commit();
    }
    nn::Ffn other = network();
    try {
      const data::Hdf5File opened = data::Hdf5File::open(file);
      require_network(opened, other);
      read_parameters(opened, kParametersGroup, other.layout(), other.parameters());
      FAIL() << "expected an Error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_file);
      EXPECT_NE(std::string(error.what()).find("parameters/seed_update/conv0_b/weights"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace floodtide::train
