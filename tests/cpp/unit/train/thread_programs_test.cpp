// SPDX-License-Identifier: Apache-2.0
// Random small programs: several threads forward, compute gradients, segment and train with networks of their own and with
// shared ones. Each result must be that of one thread, bit for bit.
//
// Only one thread changes a network. Another thread that evaluates this network meanwhile must get the result for some state of
// the parameters between two changes, or Error(in_use) if its work would mix several states.
// Environment: FLOODTIDE_PROGRAMS, number of programs (default 10); FLOODTIDE_PROGRAM_SEED, of the first one (default 0).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <latch>
#include <thread>

#include "floodtide/base/error.hpp"
#include "floodtide/base/hash.hpp"
#include "floodtide/base/parallel.hpp"
#include "floodtide/base/random.hpp"
#include "floodtide/nn/unet.hpp"
#include "floodtide/segment/flooder.hpp"
#include "support/watchdog.hpp"
#include "unit/train/run_fixture.hpp"

namespace floodtide::train {
namespace {

using Result = std::uint64_t;  // hash of an output
using Parameters = std::vector<float>;

constexpr Result kInUse = 0;  // no hash of an output has this value, in practice

template <class T>
Result result_of(std::span<const T> values) {
  return hash_of(std::as_bytes(values));
}

std::int64_t number_from(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::atoll(text) : otherwise;
}

std::vector<float> drawn(std::int64_t count, std::uint64_t seed) {
  Philox random(seed, 7);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

struct Operation {
  enum Kind { forward, gradients, segment, train, update } kind;
  std::size_t network;
  std::uint64_t seed;

  [[nodiscard]] bool changes() const noexcept { return kind == train || kind == update; }
};

struct Program {
  std::vector<nn::FfnOptions> ffns;
  std::vector<nn::UNetOptions> unets;  // their numbers follow those of the ffns
  std::vector<std::size_t> writers;    // thread that may change a network
  std::vector<std::vector<Operation>> threads;
};

Program program_of(std::uint64_t seed) {
  Philox random(seed, 1);
  const auto from = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least + 1)));
  };
  Program program;
  for (std::int64_t i = from(1, 3); i > 0; --i) {
    nn::FfnOptions options;
    options.depth = static_cast<int>(from(1, 3));
    options.fov = {7, 7, 7};
    options.deltas = {2, 2, 2};
    options.features = from(0, 2) == 0 ? 16 : 4;
    options.seed = static_cast<std::uint64_t>(from(0, 1000));
    options.parallel = from(0, 1) == 0 ? nn::Parallel::fovs : nn::Parallel::voxels;
    program.ffns.push_back(options);
  }
  for (std::int64_t i = from(0, 2); i > 0; --i) {
    nn::UNetOptions options;
    options.depth = static_cast<int>(from(1, 2));
    options.batch_norm = from(0, 1) == 0;
    options.seed = static_cast<std::uint64_t>(from(0, 1000));
    program.unets.push_back(options);
  }
  const std::size_t networks = program.ffns.size() + program.unets.size();
  const auto threads = static_cast<std::size_t>(from(2, 6));
  for (std::size_t i = 0; i < networks; ++i) program.writers.push_back(static_cast<std::size_t>(random.below(2 * threads)));
  for (std::size_t thread = 0; thread < threads; ++thread) {
    std::vector<Operation>& operations = program.threads.emplace_back();
    for (std::int64_t i = from(2, 6); i > 0; --i) {
      const auto network = static_cast<std::size_t>(random.below(networks));
      const bool writer = program.writers[network] == thread, ffn = network < program.ffns.size();
      std::int64_t kind = from(Operation::forward, writer ? Operation::update : Operation::segment);
      if (!ffn && (kind == Operation::segment || kind == Operation::train)) kind = Operation::forward;
      operations.push_back({static_cast<Operation::Kind>(kind), network, static_cast<std::uint64_t>(from(0, 5))});
    }
  }
  return program;
}

/// The networks of a program at its start.
struct Networks {
  explicit Networks(const Program& program) {
    for (const nn::FfnOptions& options : program.ffns) ffns.emplace_back(options);
    for (const nn::UNetOptions& options : program.unets) unets.emplace_back(options);
  }
  [[nodiscard]] bool is_ffn(std::size_t network) const { return network < ffns.size(); }
  [[nodiscard]] nn::UNet& unet(std::size_t network) { return unets[network - ffns.size()]; }
  [[nodiscard]] std::span<float> parameters(std::size_t network) {
    return is_ffn(network) ? ffns[network].parameters() : unet(network).parameters();
  }
  [[nodiscard]] nn::NetworkUse& use(std::size_t network) { return is_ffn(network) ? ffns[network].use() : unet(network).use(); }

  std::deque<nn::Ffn> ffns;  // networks do not move
  std::deque<nn::UNet> unets;
};

/// States of the parameters of each network, in order.
using States = std::vector<std::vector<Parameters>>;

class ThreadPrograms : public RunFixture {
 protected:
  /// Runs an operation. Calls changed(network) after each change of parameters.
  template <class Changed>
  Result run(const Operation& operation, Networks& networks, Changed changed) const {
    const Vec3 size{3 + static_cast<std::int64_t>(operation.seed), 7, 4 + static_cast<std::int64_t>(operation.seed % 3)};
    const std::size_t network = operation.network;
    switch (operation.kind) {
      case Operation::forward:
        return networks.is_ffn(network) ? forward(networks.ffns[network], size)
                                        : forward(networks.unet(network), operation.seed);
      case Operation::gradients: {
        const auto gradients = gradients_of(networks, operation, size);
        return result_of<float>(gradients);
      }
      case Operation::segment: return segment(networks.ffns[network], operation.seed);
      case Operation::train: {
        const auto self = comm::self();
        const data::ExampleSource source = examples(2);
        const auto one = trainer(networks.ffns[network], source, *self, 2, operation.seed % 2 == 0 ? "adam" : "sgd");
        for (int step = 0; step < 3; ++step) {
          static_cast<void>(one->step());
          changed(network);
        }
        return result_of<float>(std::as_const(networks.ffns[network]).parameters());
      }
      case Operation::update: {
        const auto gradients = gradients_of(networks, operation, size);
        {
          const nn::NetworkUse::Hold change = networks.use(network).change();
          const std::span<float> parameters = networks.parameters(network);
          for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.01F * gradients[i];
        }
        changed(network);
        if (!networks.is_ffn(network)) {
          networks.unet(network).move_statistics(gradients, 2);
          changed(network);
        }
        return result_of<float>(gradients);
      }
    }
    return kInUse;
  }

  static Result forward(nn::Ffn& network, const Vec3& size) {
    const std::vector<float> image = drawn(volume<3>(size), 1), logits = drawn(volume<3>(size), 2);
    std::vector<float> out(image.size());
    const nn::FfnExample example{{image.data(), size}, {logits.data(), size}, {out.data(), size}, {}, {}};
    network.forward({&example, 1});
    return result_of<float>(out);
  }

  static Result forward(nn::UNet& network, std::uint64_t seed) {
    const Shape<5> shape{1 + static_cast<std::int64_t>(seed % 2), 1, 4 + static_cast<std::int64_t>(seed), 6, 1};
    const std::vector<float> images = drawn(volume<5>(shape), 3);
    Tensor<float, 5> out({shape[0], shape[1], shape[2], shape[3], network.options().classes});
    network.forward({images.data(), shape}, out.view());
    return result_of<float>(std::as_const(out).span());
  }

  static std::vector<float> gradients_of(Networks& networks, const Operation& operation, const Vec3& size) {
    std::vector<float> gradients(networks.parameters(operation.network).size());
    if (networks.is_ffn(operation.network)) {
      const std::vector<float> image = drawn(volume<3>(size), 4), logits = drawn(volume<3>(size), 5),
                               labels(image.size(), 0.05F);
      std::vector<std::vector<float>> out(1 + operation.seed % 3, std::vector<float>(image.size()));
      std::vector<nn::FfnExample> batch;
      for (std::vector<float>& one : out) {
        batch.push_back({{image.data(), size}, {logits.data(), size}, {one.data(), size}, {labels.data(), size}, {}});
      }
      networks.ffns[operation.network].loss_and_gradients(batch, gradients, 0.5);
      return gradients;
    }
    const Shape<5> shape{2, 1, 4 + 2 * static_cast<std::int64_t>(operation.seed % 3), 6, 1};
    const std::vector<float> images = drawn(volume<5>(shape), 6);
    const std::vector<std::uint8_t> labels(images.size(), 1);
    const nn::SampleBatch batch{
        {images.data(), shape}, {{labels.data(), {shape[0], shape[1], shape[2], shape[3]}}, {}, {}}, 1, {}, {}};
    static_cast<void>(networks.unet(operation.network).loss_and_gradients(batch, {}, gradients, 0.5));
    return gradients;
  }

  static Result segment(nn::Ffn& network, std::uint64_t seed) {
    const Vec3 size{13, 14, 15};
    Tensor<float, 3> image(size);
    std::ranges::copy(drawn(volume<3>(size), seed), image.data());
    segment::FlooderOptions options;
    options.fov = network.options().fov;
    options.deltas = network.options().deltas;
    options.move_threshold = 0.4;  // a network that learned nothing moves, too
    options.segment_threshold = 0.3;
    options.min_segment_size = 1;
    segment::Flooder flooder(std::move(image), options, segment::network_predictor(network));
    const std::vector<Vec3> seeds{{4, 5, 6}, {8, 8, 8}};
    flooder.segment_all(seeds);
    return hash_of(std::as_bytes(flooder.segmentation().span()), static_cast<std::uint64_t>(flooder.evaluations()));
  }

  /// Runs a program on one thread. Returns the results of all operations for all states of the parameters that other threads
  /// may change meanwhile, and for operations of the thread that changes them for one state.
  std::vector<std::vector<std::vector<Result>>> alone(const Program& program) const {
    Networks networks(program);
    States states(program.writers.size());
    const auto keep = [&](std::size_t network) {
      const std::span<float> now = networks.parameters(network);
      states[network].emplace_back(now.begin(), now.end());
    };
    for (std::size_t network = 0; network < states.size(); ++network) keep(network);
    std::vector<std::vector<std::vector<Result>>> results;
    const auto is_own = [&](const Operation& operation, std::size_t thread) {
      return program.writers[operation.network] == thread;
    };
    for (std::size_t thread = 0; thread < program.threads.size(); ++thread) {
      results.emplace_back(program.threads[thread].size());
      for (std::size_t i = 0; i < program.threads[thread].size(); ++i) {
        const Operation& operation = program.threads[thread][i];
        if (is_own(operation, thread)) results[thread][i] = {run(operation, networks, keep)};
      }
    }
    for (std::size_t thread = 0; thread < program.threads.size(); ++thread) {
      for (std::size_t i = 0; i < program.threads[thread].size(); ++i) {
        const Operation& operation = program.threads[thread][i];
        if (is_own(operation, thread)) continue;
        for (const Parameters& state : states[operation.network]) {
          Networks fresh(program);
          std::ranges::copy(state, fresh.parameters(operation.network).begin());
          results[thread][i].push_back(run(operation, fresh, [](std::size_t) {}));
        }
        if (operation.kind == Operation::segment && changed_by_others(program, operation, thread)) {
          results[thread][i].push_back(kInUse);
        }
      }
    }
    return results;
  }

  static bool changed_by_others(const Program& program, const Operation& operation, std::size_t thread) {
    for (std::size_t other = 0; other < program.threads.size(); ++other) {
      const auto changes = [&](const Operation& one) { return one.changes() && one.network == operation.network; };
      if (other != thread && std::ranges::any_of(program.threads[other], changes)) return true;
    }
    return false;
  }

  std::vector<std::vector<Result>> together(const Program& program) const {
    Networks networks(program);
    std::vector<std::vector<Result>> results(program.threads.size());
    std::latch all(std::ssize(program.threads));
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < program.threads.size(); ++thread) {
      threads.emplace_back([&, thread] {
        set_num_threads(1 + static_cast<int>(thread % 2));
        all.arrive_and_wait();
        for (const Operation& operation : program.threads[thread]) {
          try {
            results[thread].push_back(run(operation, networks, [](std::size_t) {}));
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::in_use) << error.what();
            results[thread].push_back(kInUse);
          }
        }
      });
    }
    threads.clear();
    return results;
  }
};

TEST_F(ThreadPrograms, HaveTheResultsOfOneThread) {
  const std::int64_t count = number_from("FLOODTIDE_PROGRAMS", 10), first = number_from("FLOODTIDE_PROGRAM_SEED", 0);
  std::int64_t refused = 0, operations = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    const test::Watchdog watchdog(std::chrono::seconds(300));
    const Program program = program_of(static_cast<std::uint64_t>(seed));
    const auto expected = alone(program);
    const auto found = together(program);
    for (std::size_t thread = 0; thread < found.size(); ++thread) {
      for (std::size_t i = 0; i < found[thread].size(); ++i) {
        const Operation& operation = program.threads[thread][i];
        EXPECT_TRUE(std::ranges::find(expected[thread][i], found[thread][i]) != expected[thread][i].end())
            << "program " << seed << ", thread " << thread << ", operation " << i << " of kind " << operation.kind
            << " on network " << operation.network << (found[thread][i] == kInUse ? ": in use" : "");
        refused += found[thread][i] == kInUse ? 1 : 0;
        ++operations;
      }
    }
  }
  RecordProperty("operations", std::to_string(operations));
  RecordProperty("refused", std::to_string(refused));
}

}  // namespace
}  // namespace floodtide::train
