// SPDX-License-Identifier: Apache-2.0
// Reads damaged files with every reader of the core, for runs under the sanitizers (tests/sanitize.sh address).
//
//   floodtide_fuzz_readers CHECKER SAMPLE FILE...
//
// CHECKER is the program _hdf5_check, which reads HDF5 files first. SAMPLE is the folder of valid files that the damaged ones
// were made of. A reader may return or throw Error; anything else that it throws, and more than 20 s a file, is a finding, as
// is what the sanitizers find. The exit status is 1 if there is one.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/data/examples.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/data/partition.hpp"
#include "floodtide/data/patch_source.hpp"
#include "floodtide/data/volume.hpp"
#include "floodtide/flood/training_flood.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/unet.hpp"
#include "floodtide/train/network_file.hpp"
#include "floodtide/train/trainer.hpp"
#include "floodtide/train/walkers.hpp"

namespace floodtide {
namespace {

constexpr unsigned kSecondsAFile = 20;
constexpr std::int64_t kMostElements = 1 << 22;  // of a dataset that is read whole
constexpr std::int64_t kSide = 16;               // of the box that is read of larger ones
constexpr Vec3 kFov{7, 7, 7};                    // of the samples' network
constexpr Vec3 kDeltas{2, 2, 2};

std::string current_file;
bool found_something = false;

/// Runs one reader: what it throws beside Error is a finding.
void attempt(const std::string& reader, const std::function<void()>& read) {
  try {
    read();
  } catch (const Error&) {
    // Refused, as damaged files should be.
  } catch (const std::exception& error) {
    std::cerr << "finding: " << current_file << ": " << reader << " throws " << typeid(error).name() << ": " << error.what()
              << '\n';
    found_something = true;
  }
}

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent > 0 && count > kMostElements / extent) return kMostElements + 1;
    count *= extent;
  }
  return count;
}

void read_dataset(const data::Hdf5File& file, const std::string& name) {
  attempt("Hdf5File::info", [&] {
    const data::DatasetInfo info = file.info(name);
    if (elements(info.shape) > kMostElements) return;
    attempt("Hdf5File::read_array of floats", [&] { static_cast<void>(file.read_array<float>(name)); });
    attempt("Hdf5File::read_array of integers", [&] { static_cast<void>(file.read_array<std::int64_t>(name)); });
    attempt("Hdf5File::read_array of bytes", [&] { static_cast<void>(file.read_array<std::uint8_t>(name)); });
  });
}

void read_volume(const std::string& path, const std::string& name) {
  attempt("open_volume", [&] {
    const data::VolumePtr opened = data::open_volume(path, name);
    const data::Volume& volume = *opened;
    Box box = volume.box();
    for (std::int64_t& extent : box.size) extent = std::min(extent, 2 * kSide);
    attempt("Volume::read_block of intensities", [&] { static_cast<void>(volume.read_block<float>(box)); });
    attempt("Volume::read_block of labels", [&] { static_cast<void>(volume.read_block<std::int64_t>(box)); });
    attempt("Volume::read_block of partitions", [&] { static_cast<void>(volume.read_block<std::uint8_t>(box)); });
  });
}

void read_attributes(const data::Hdf5File& file, const std::string& object) {
  for (const char* name : {"format", "format_version", "version", "kind", "depth", "features", "fov", "deltas", "step", "seed",
                           "walkers", "configuration", "volumes", "classes", "class_counts", "box_start", "thresholds"}) {
    attempt("Hdf5File::read_attribute of integers",
            [&] { static_cast<void>(file.read_attribute<std::int64_t>(object, name)); });
    attempt("Hdf5File::read_attribute of numbers", [&] { static_cast<void>(file.read_attribute<double>(object, name)); });
    attempt("Hdf5File::read_text_attribute", [&] { static_cast<void>(file.read_text_attribute(object, name)); });
  }
}

void read_network(const data::Hdf5File& file) {
  attempt("read_network", [&] {
    const std::unique_ptr<nn::Network> network = train::read_network(file);
    train::require_network(file, *network);
  });
}

/// Patches of an image with masks: classes, as their values are.
void read_patches(const std::string& path) {
  attempt("PatchSource", [&] {
    data::PatchOptions options;
    options.patch = {1, 8, 8};
    const data::LabelledImage image{"masks", {{path + ":image"}}, {{path + ":mask", {}}}, {}};
    Box box = data::open_volume(path, "image")->box();
    for (std::int64_t& extent : box.size) extent = std::min(extent, 2 * kSide);
    const data::PatchSource source({image}, {{0, box, 0}}, {"all"}, data::class_targets(3), options);
    for (std::int64_t number = 0; number < std::min<std::int64_t>(source.fixed_size(), 16); ++number)
      static_cast<void>(source.fixed(number));
  });
}

/// What a training opens at its start: the three volumes of a source.
void read_examples(const std::string& path, const std::string& sample) {
  data::ExampleOptions options;
  options.patch_size = flood::patch_size(kFov, kDeltas);
  for (const bool partitions : {false, true}) {
    attempt("ExampleSource", [&] {
      const std::string volume = (partitions ? sample + "/volume.h5" : path),
                        other = partitions ? path : sample + "/partitions.h5";
      const data::ExampleSource source({{"cube", volume + ":raw", volume + ":labels", other + ":af", std::nullopt, 128, 33}},
                                       options);
      static_cast<void>(source.load({}));
    });
  }
}

/// Loads whole states of trainings into a trainer of the samples' run.
class Resumer {
 public:
  explicit Resumer(const std::string& sample) : source_(examples(sample)), network_(options()) {
    const train::WalkersOptions walkers{.walkers = 2, .rank = 0, .ranks = 1, .seed = 4, .cycle = true};
    trainer_ = std::make_unique<train::Trainer>(train::make_flood_walkers(network_, source_, walkers, {}),
                                                optim::make_optimizer("adam", {}, network_.layout()),
                                                optim::make_schedule("constant", {{"base_lr", 1e-3}}),
                                                optim::Scaling("none", {}, {}), *communicator_, train::TrainerOptions{});
  }

  void load(const std::string& path) {
    attempt("Trainer::load", [&] { trainer_->load(path); });
  }

 private:
  static nn::FfnOptions options() {
    nn::FfnOptions options;
    options.depth = 2;
    options.features = 4;
    options.fov = kFov;
    options.deltas = kDeltas;
    return options;
  }
  static data::ExampleSource examples(const std::string& sample) {
    data::ExampleOptions options;
    options.patch_size = flood::patch_size(kFov, kDeltas);
    options.walkers = 2;
    options.seed = 4;
    const std::string volume = sample + "/volume.h5";
    return data::ExampleSource(
        {{"cube", volume + ":raw", volume + ":labels", sample + "/partitions.h5:af", std::nullopt, 128, 33}}, options);
  }

  data::ExampleSource source_;
  nn::Ffn network_;
  std::unique_ptr<comm::Communicator> communicator_ = comm::self();
  std::unique_ptr<train::Trainer> trainer_;
};

void read_hdf5(const std::string& path, const std::string& sample, Resumer& resumer) {
  attempt("Hdf5File::open", [&] {
    const data::Hdf5File file = data::Hdf5File::open(path);
    attempt("Hdf5File::list", [&] { static_cast<void>(file.list()); });
    read_attributes(file, "/");
    attempt("Hdf5File::datasets", [&] {
      for (const std::string& name : file.datasets()) {
        read_dataset(file, name);
        read_volume(path, name);
        read_attributes(file, name);
      }
    });
    read_network(file);
  });
  read_patches(path);
  read_examples(path, sample);
  attempt("PartitionJob", [&] {
    const data::PartitionJob job(path + ":labels", {{0.5}, {3, 3, 3}, 10, std::nullopt});
    static_cast<void>(job.count(0, std::min<std::int64_t>(job.counting_blocks(), 2)));
  });
  resumer.load(path);
}

extern "C" void out_of_time(int) {
  // The name of the file was printed before it was read.
  constexpr char kText[] = "finding: the last file takes more than 20 s\n";
  static_cast<void>(!write(STDERR_FILENO, kText, sizeof kText - 1));
  _exit(1);
}

int run(const std::vector<std::string>& words) {
  if (words.size() < 3) {
    std::cerr << "expected CHECKER SAMPLE FILE...\n";
    return 2;
  }
  data::set_hdf5_checker(words[0]);
  set_num_threads(1);
  std::signal(SIGALRM, out_of_time);
  Resumer resumer(words[1]);
  for (std::size_t number = 2; number < words.size(); ++number) {
    current_file = words[number];
    std::cout << current_file << std::endl;
    alarm(kSecondsAFile);
    if (current_file.ends_with(".h5")) read_hdf5(current_file, words[1], resumer);
  }
  alarm(0);
  return found_something ? 1 : 0;
}

}  // namespace
}  // namespace floodtide

int main(int argc, char** argv) {
  try {
    return floodtide::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "the valid files cannot be read: " << error.what() << '\n';
    return 2;
  }
}
