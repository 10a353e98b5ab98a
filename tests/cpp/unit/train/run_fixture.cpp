// SPDX-License-Identifier: Apache-2.0
#include "unit/train/run_fixture.hpp"

#include <unistd.h>

#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/flood/training_flood.hpp"
#include "floodtide/train/walkers.hpp"
#include "support/threads.hpp"

namespace floodtide::train {
namespace {

constexpr Vec3 kShape{26, 26, 26};

template <class T>
void write_volume(const std::string& path, const std::string& dataset, const Tensor<T, 3>& volume) {
  data::Hdf5File file = data::Hdf5File::create(path);
  file.write_array<T>(dataset, volume.shape(), volume.span());
  file.commit();
}

}  // namespace

void RunFixture::SetUp() {
  set_num_threads(1);
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  folder_ = std::filesystem::temp_directory_path() / ("floodtide-" + test + "-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder_);
  Tensor<std::uint8_t, 3> image(kShape), partitions(kShape);
  Tensor<std::int32_t, 3> labels(kShape);
  Philox random(5, 0);
  for (std::int64_t z = 0; z < kShape[0]; ++z) {
    for (std::int64_t y = 0; y < kShape[1]; ++y) {
      for (std::int64_t x = 0; x < kShape[2]; ++x) {
        const bool left = y + z / 4 < kShape[1] / 2 + 3;
        labels.view()(z, y, x) = left ? 17 : 23;
        image.view()(z, y, x) = static_cast<std::uint8_t>((left ? 100 : 150) + random.below(20));
        partitions.view()(z, y, x) = static_cast<std::uint8_t>(1 + random.below(3));
      }
    }
  }
  write_volume(path("image.h5"), "raw", image);
  write_volume(path("labels.h5"), "stack", labels);
  write_volume(path("partitions.h5"), "af", partitions);
}

void RunFixture::TearDown() { std::filesystem::remove_all(folder_); }

data::SourceOptions RunFixture::source_options() const {
  return {"slabs", path("image.h5:raw"), path("labels.h5:stack"), path("partitions.h5:af"), std::nullopt, 128, 33};
}

data::ExampleSource RunFixture::examples(std::int64_t walkers, std::optional<Box> box) const {
  data::ExampleOptions options;
  options.patch_size = flood::patch_size(kFov, kDeltas);
  options.seed = 3;
  options.walkers = walkers;
  options.augmentation.permutable_axes = {0, 1, 2};
  options.augmentation.reflectable_axes = {0, 1, 2};
  data::SourceOptions source = source_options();
  source.box = box;
  return data::ExampleSource({source}, options);
}

nn::Ffn RunFixture::network(int depth) {
  nn::FfnOptions options;
  options.depth = depth;
  options.fov = kFov;
  options.deltas = kDeltas;
  options.features = 5;
  options.seed = 11;
  return nn::Ffn(options);
}

std::unique_ptr<Trainer> RunFixture::trainer(nn::Ffn& network, const data::ExampleSource& examples,
                                             comm::Communicator& communicator, std::int64_t walkers,
                                             const std::string& optimizer, const TrainerOptions& options) {
  const WalkersOptions own{.walkers = walkers,
                           .rank = communicator.rank(),
                           .ranks = communicator.size(),
                           .seed = 3,
                           .cycle = options.on_exhausted == OnExhausted::cycle};
  return std::make_unique<Trainer>(
      make_flood_walkers(network, examples, own, {}), optim::make_optimizer(optimizer, {}, network.layout()),
      optim::make_schedule("constant", {{"base_lr", 2e-3}}), optim::Scaling("none", {}, {}), communicator, options);
}

std::vector<float> RunFixture::run(int ranks, std::int64_t walkers, const std::function<void(Trainer&)>& body,
                                   const TrainerOptions& options) const {
  return run_ranks(ranks, walkers, [&](Trainer& trainer, int) { body(trainer); }, options);
}

std::vector<float> RunFixture::run_ranks(int ranks, std::int64_t walkers, const std::function<void(Trainer&, int)>& body,
                                         const TrainerOptions& options) const {
  std::vector<float> parameters;
  comm::run_threads(ranks, [&](comm::Communicator& communicator) {
    set_num_threads(1);
    const data::ExampleSource source = examples(walkers);
    nn::Ffn net = network();
    const auto one = trainer(net, source, communicator, walkers, "adam", options);
    body(*one, communicator.rank());
    one->check_replicas();
    if (communicator.rank() == 0) parameters.assign(net.parameters().begin(), net.parameters().end());
  });
  return parameters;
}

}  // namespace floodtide::train
