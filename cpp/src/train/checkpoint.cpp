// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <variant>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/train/network_file.hpp"

namespace floodtide::train {
namespace {

using data::Hdf5File;

constexpr int kPositionTag = 1, kCanvasTag = 2;
constexpr int kGzip = 4;

// epoch, index, move, active: what places a walker, beside its canvas.
using Position = std::array<std::int64_t, 4>;

Position position_of(const Walker& walker) {
  return {walker.cursor().epoch, walker.cursor().index, walker.flood().move(), walker.active() ? 1 : 0};
}

void write_optimizer(Hdf5File& file, optim::Optimizer& optimizer) {
  file.create_group("optimizer");
  for (const optim::NamedSpan& part : optimizer.state()) {
    std::visit(
        [&]<class T>(std::span<T> values) {
          const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())};
          file.write_array<T>("optimizer/" + part.name, shape, values);
        },
        part.values);
  }
}

void read_optimizer(const Hdf5File& file, optim::Optimizer& optimizer) {
  const auto parts = optimizer.state();
  const auto stored = file.list("optimizer");
  for (const std::string& name : stored) {
    const bool known = std::ranges::any_of(parts, [&](const optim::NamedSpan& part) { return part.name == name; });
    FLOODTIDE_REQUIRE(known, invalid_file, "checkpoint ", file.path(), ": it holds the optimizer state '", name,
                      "', which this run's optimizer does not have");
  }
  for (const optim::NamedSpan& part : parts) {
    FLOODTIDE_REQUIRE(file.exists("optimizer/" + part.name), invalid_file, "checkpoint ", file.path(),
                      ": the optimizer state '", part.name, "' is missing: it was written by another optimizer");
    std::visit(
        [&]<class T>(std::span<T> values) {
          const auto array = file.read_array<T>("optimizer/" + part.name);
          FLOODTIDE_REQUIRE(array.values.size() == values.size(), invalid_file, "checkpoint ", file.path(), ": optimizer/",
                            part.name, " has ", array.values.size(), " values, expected ", values.size());
          std::ranges::copy(array.values, values.begin());
        },
        part.values);
  }
}

Hdf5File start_file(const std::string& path, const std::string& configuration, const CheckpointState& state,
                    const Vec3& canvas) {
  Hdf5File file = Hdf5File::create(path);
  write_network(file, state.network);
  if (!state.average.empty()) write_parameters(file, kAverageGroup, state.network.layout(), state.average);
  file.write_attribute("/", "step", state.step);
  file.write_attribute("/", "seed", static_cast<std::int64_t>(state.seed));
  file.write_attribute("/", "walkers", state.walkers);
  file.write_attribute("/", "configuration", configuration);
  write_optimizer(file, state.optimizer);
  const std::int64_t positions[] = {state.walkers, static_cast<std::int64_t>(Position{}.size())};
  file.create_dataset("walkers/position", data::ElementType::int64, positions);
  const std::int64_t canvases[] = {state.walkers, canvas[0], canvas[1], canvas[2]};
  file.create_dataset("walkers/canvas", data::ElementType::float32, canvases,
                      {.chunks = {1, canvas[0], canvas[1], canvas[2]}, .gzip = kGzip});
  return file;
}

void write_walker(Hdf5File& file, std::int64_t number, const Position& position, View<const float, 3> canvas) {
  const std::int64_t row[] = {number, 0};
  const std::int64_t one_row[] = {1, static_cast<std::int64_t>(position.size())};
  file.write_block<std::int64_t>("walkers/position", row, one_row, position);
  const std::int64_t start[] = {number, 0, 0, 0};
  const std::int64_t count[] = {1, canvas.shape(0), canvas.shape(1), canvas.shape(2)};
  file.write_block<float>("walkers/canvas", start, count, canvas.span());
}

}  // namespace

void save_checkpoint(const std::string& path, const std::string& configuration, const CheckpointState& state,
                     const std::vector<Walker>& walkers, comm::Communicator& communicator) {
  std::exception_ptr failure;
  if (communicator.rank() == 0) {
    const Vec3 shape = walkers.front().flood().canvas().shape();
    std::optional<Hdf5File> file;
    Tensor<float, 3> canvas(shape);
    const auto attempt = [&](auto&& work) {  // a failed write must not keep the senders waiting
      if (failure) return;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    };
    attempt([&] { file = start_file(path, configuration, state, shape); });
    for (std::int64_t number = 0; number < state.walkers; ++number) {
      const int owner = static_cast<int>(number % communicator.size());
      if (owner == 0) {
        const Walker& walker = walkers[static_cast<std::size_t>(number / communicator.size())];
        attempt([&] { write_walker(*file, number, position_of(walker), walker.flood().canvas()); });
      } else {
        Position position{};
        communicator.receive(owner, kPositionTag, std::as_writable_bytes(std::span(position)))->wait();
        communicator.receive(owner, kCanvasTag, std::as_writable_bytes(canvas.span()))->wait();
        attempt([&] { write_walker(*file, number, position, canvas.view()); });
      }
    }
    attempt([&] { file->commit(); });
  } else {
    for (const Walker& walker : walkers) {
      const Position position = position_of(walker);
      communicator.send(0, kPositionTag, std::as_bytes(std::span(position)))->wait();
      communicator.send(0, kCanvasTag, std::as_bytes(walker.flood().canvas().span()))->wait();
    }
  }
  comm::agree(communicator, failure);
}

std::int64_t load_checkpoint(const std::string& path, const CheckpointState& state, std::vector<Walker>& walkers,
                             const data::ExampleSource& examples) {
  const Hdf5File file = Hdf5File::open(path);
  read_network(file, state.network);
  // A run that begins to average when it resumes starts from the parameters.
  if (!state.average.empty()) read_parameters(file, best_group(file), state.network.layout(), state.average);
  FLOODTIDE_REQUIRE(file.has_attribute("/", "walkers"), invalid_file, "checkpoint ", path,
                    ": it holds a network but no training state to resume from");
  const std::int64_t stored_walkers = file.read_attribute<std::int64_t>("/", "walkers").values.at(0);
  FLOODTIDE_REQUIRE(stored_walkers == state.walkers, invalid_file, "checkpoint ", path, ": it was written with ",
                    stored_walkers, " walkers, this run has ", state.walkers);
  read_optimizer(file, state.optimizer);
  for (Walker& walker : walkers) {
    Position position{};
    const std::int64_t row[] = {walker.number(), 0};
    const std::int64_t one_row[] = {1, static_cast<std::int64_t>(position.size())};
    file.read_block<std::int64_t>("walkers/position", row, one_row, position);
    if (position[3] == 0) continue;
    const Vec3 shape = walker.flood().canvas().shape();
    Tensor<float, 3> canvas(shape);
    const std::int64_t start[] = {walker.number(), 0, 0, 0};
    const std::int64_t count[] = {1, shape[0], shape[1], shape[2]};
    file.read_block<float>("walkers/canvas", start, count, canvas.span());
    const data::Cursor cursor{walker.number(), position[0], position[1]};
    walker.resume(examples.load(cursor), state.seed, position[2], canvas.view());
  }
  return file.read_attribute<std::int64_t>("/", "step").values.at(0);
}

}  // namespace floodtide::train
