// SPDX-License-Identifier: Apache-2.0
// Opens a volume, runs a flood-filling network on its middle, and trains the network for one step on all ranks.
//
// Usage: mpiexec -n 2 ./train_step IMAGE LABELS PARTITIONS [CHECKPOINT]
// IMAGE, LABELS and PARTITIONS are "file.h5:dataset"; `floodtide partition` writes the third one. CHECKPOINT is a checkpoint
// of a training, or the published network of FIB-25 after `floodtide convert`; without it, the weights are random.
#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/mpi.hpp"
#include "floodtide/train/network_file.hpp"
#include "floodtide/train/trainer.hpp"
#include "floodtide/train/walkers.hpp"

using namespace floodtide;

/// Reads the flood-filling network of a checkpoint.
std::unique_ptr<nn::Ffn> stored_network(const std::string& path) {
  std::unique_ptr<nn::Network> network = train::read_network(data::Hdf5File::open(path));
  auto* const ffn = dynamic_cast<nn::Ffn*>(network.get());
  if (ffn == nullptr) throw Error(ErrorCode::invalid_file, path + ": it holds " + network->summary());
  static_cast<void>(network.release());
  return std::unique_ptr<nn::Ffn>(ffn);
}

void run(comm::Communicator& ranks, char** argv) {
  const data::SourceOptions volume{
      .name = "volume", .image = argv[1], .labels = argv[2], .partitions = argv[3], .box = {}, .mean = 128, .std = 33};
  const auto owner = argv[4] != nullptr ? stored_network(argv[4]) : std::make_unique<nn::Ffn>(nn::FfnOptions{.depth = 2});
  nn::Ffn& network = *owner;
  const Vec3 fov = network.options().fov;

  // One pass on the middle of the volume. The object map starts as the seed: 0.95 in the centre, 0.05 elsewhere.
  const data::Source source(volume);
  const Vec3 size = source.image().shape();
  const Tensor<float, 3> image = source.read_image(centred_box({size[0] / 2, size[1] / 2, size[2] / 2}, fov));
  Tensor<float, 3> logits(fov);
  std::ranges::fill(logits.span(), -2.944F);
  logits.view()(fov[0] / 2, fov[1] / 2, fov[2] / 2) = 2.944F;
  const nn::FfnExample example{.image = image.view(), .logits = logits.view(), .out_logits = logits.view()};
  network.forward({&example, 1});
  const auto voxels = std::ranges::count_if(logits.span(), [](float logit) { return logit > 0; });

  // One training step: each rank computes one field of view, and all ranks make the same update.
  const data::ExampleSource examples({volume}, {.patch_size = {49, 49, 49}, .walkers = ranks.size()});
  const train::WalkersOptions walkers{.walkers = ranks.size(), .rank = ranks.rank(), .ranks = ranks.size()};
  train::Trainer trainer(train::make_flood_walkers(network, examples, walkers, {}),
                         optim::make_optimizer("sgd", {}, network.layout()),
                         optim::make_schedule("constant", {{"base_lr", 0.001}}), optim::Scaling("none", {}, {}), ranks, {});
  const train::StepReport report = trainer.step();
  trainer.check_replicas();
  const train::Metrics sums = trainer.take_metrics();
  if (ranks.rank() != 0) return;
  std::cout << ranks.size() << " ranks, depth " << network.options().depth << ": " << voxels << " voxels of the object; step "
            << report.step << ", loss " << sums.loss_sum / static_cast<double>(sums.fovs) << std::endl;
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::cerr << "usage: " << argv[0] << " IMAGE LABELS PARTITIONS [CHECKPOINT]\n";
    return 2;
  }
  try {
    comm::MpiLibrary mpi(comm::find_mpi());
    run(*mpi.world(), argv);
    mpi.finish();
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
