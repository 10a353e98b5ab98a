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

using Position = Walkers::Position;

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

Hdf5File start_file(const std::string& path, const std::string& configuration, const CheckpointState& state) {
  Hdf5File file = Hdf5File::create(path);
  const std::int64_t walkers = state.walkers.options().walkers;
  state.walkers.write_network(file);
  if (!state.average.empty()) write_parameters(file, kAverageGroup, state.walkers.layout(), state.average);
  file.write_attribute("/", "step", state.step);
  file.write_attribute("/", "seed", static_cast<std::int64_t>(state.walkers.options().seed));
  file.write_attribute("/", "walkers", walkers);
  file.write_attribute("/", "configuration", configuration);
  write_optimizer(file, state.optimizer);
  const std::int64_t positions[] = {walkers, static_cast<std::int64_t>(Position{}.size())};
  file.create_dataset("walkers/position", data::ElementType::int64, positions);
  const Vec3 canvas = state.walkers.canvas_shape();
  if (volume(canvas) > 0) {
    const std::int64_t canvases[] = {walkers, canvas[0], canvas[1], canvas[2]};
    file.create_dataset("walkers/canvas", data::ElementType::float32, canvases,
                        {.chunks = {1, canvas[0], canvas[1], canvas[2]}, .gzip = kGzip});
  }
  return file;
}

void write_walker(Hdf5File& file, std::int64_t number, const Position& position, View<const float, 3> canvas) {
  const std::int64_t row[] = {number, 0};
  const std::int64_t one_row[] = {1, static_cast<std::int64_t>(position.size())};
  file.write_block<std::int64_t>("walkers/position", row, one_row, position);
  if (canvas.size() == 0) return;
  const std::int64_t start[] = {number, 0, 0, 0};
  const std::int64_t count[] = {1, canvas.shape(0), canvas.shape(1), canvas.shape(2)};
  file.write_block<float>("walkers/canvas", start, count, canvas.span());
}

void read_walker(const Hdf5File& file, std::int64_t slot, Walkers& walkers) {
  Position position{};
  const std::int64_t row[] = {walkers.number(slot), 0};
  const std::int64_t one_row[] = {1, static_cast<std::int64_t>(position.size())};
  file.read_block<std::int64_t>("walkers/position", row, one_row, position);
  if (position[3] == 0) return;
  const Vec3 shape = walkers.canvas_shape();
  Tensor<float, 3> canvas(shape);
  if (canvas.size() > 0) {
    const std::int64_t start[] = {walkers.number(slot), 0, 0, 0};
    const std::int64_t count[] = {1, shape[0], shape[1], shape[2]};
    file.read_block<float>("walkers/canvas", start, count, canvas.span());
  }
  walkers.resume(slot, position, canvas.view());
}

}  // namespace

void save_checkpoint(const std::string& path, const std::string& configuration, const CheckpointState& state,
                     comm::Communicator& communicator) {
  Walkers& walkers = state.walkers;
  std::exception_ptr failure;
  if (communicator.rank() == 0) {
    std::optional<Hdf5File> file;
    Tensor<float, 3> canvas(walkers.canvas_shape());
    const auto attempt = [&](auto&& work) {  // a failed write must not keep the senders waiting
      if (failure) return;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    };
    attempt([&] { file = start_file(path, configuration, state); });
    for (std::int64_t number = 0; number < walkers.options().walkers; ++number) {
      const int owner = static_cast<int>(number % communicator.size());
      if (owner == 0) {
        const std::int64_t slot = number / communicator.size();
        attempt([&] { write_walker(*file, number, walkers.position(slot), walkers.canvas(slot)); });
      } else {
        Position position{};
        communicator.receive(owner, kPositionTag, std::as_writable_bytes(std::span(position)))->wait();
        communicator.receive(owner, kCanvasTag, std::as_writable_bytes(canvas.span()))->wait();
        attempt([&] { write_walker(*file, number, position, canvas.view()); });
      }
    }
    attempt([&] { file->commit(); });
  } else {
    for (std::int64_t slot = 0; slot < walkers.local(); ++slot) {
      const Position position = walkers.position(slot);
      communicator.send(0, kPositionTag, std::as_bytes(std::span(position)))->wait();
      communicator.send(0, kCanvasTag, std::as_bytes(walkers.canvas(slot).span()))->wait();
    }
  }
  comm::agree(communicator, failure);
}

std::int64_t load_checkpoint(const std::string& path, const CheckpointState& state) {
  const Hdf5File file = Hdf5File::open(path);
  Walkers& walkers = state.walkers;
  walkers.read_network(file);
  // A run that begins to average when it resumes starts from the parameters.
  if (!state.average.empty()) read_parameters(file, best_group(file), walkers.layout(), state.average);
  FLOODTIDE_REQUIRE(file.has_attribute("/", "walkers"), invalid_file, "checkpoint ", path,
                    ": it holds a network but no training state to resume from");
  const std::int64_t stored_walkers = file.read_attribute<std::int64_t>("/", "walkers").values.at(0);
  FLOODTIDE_REQUIRE(stored_walkers == walkers.options().walkers, invalid_file, "checkpoint ", path, ": it was written with ",
                    stored_walkers, " walkers, this run has ", walkers.options().walkers);
  read_optimizer(file, state.optimizer);
  for (std::int64_t slot = 0; slot < walkers.local(); ++slot) read_walker(file, slot, walkers);
  return file.read_attribute<std::int64_t>("/", "step").values.at(0);
}

}  // namespace floodtide::train
