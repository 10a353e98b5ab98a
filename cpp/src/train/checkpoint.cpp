// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "floodtide/base/crc32c.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/train/network_file.hpp"

namespace floodtide::train {
namespace {

using data::Hdf5File;

constexpr int kWalkersTag = 1, kCanvasesTag = 2;
constexpr int kGzip = 4;

using Position = Walkers::Position;

constexpr Limits kSteps{0, 1e15};
constexpr Limits kWalkers{1, 1e9};
constexpr Limits kEpochs{0, 1e9};
constexpr Limits kPlaces{0, 1e12};  // index of an example, move
constexpr Limits kFlag{0, 1};

std::string optimizer_part(const std::string& name) { return str_cat(kOptimizerGroup, "/", name); }

void write_optimizer(Hdf5File& file, optim::Optimizer& optimizer) {
  file.create_group(kOptimizerGroup);
  std::uint32_t checksum = 0;
  for (const optim::NamedSpan& part : optimizer.state()) {
    std::visit(
        [&]<class T>(std::span<T> values) {
          const std::int64_t shape[] = {static_cast<std::int64_t>(values.size())};
          file.write_array<T>(optimizer_part(part.name), shape, values, {.checksums = false});
          checksum = crc32c(std::as_bytes(values), checksum);
        },
        part.values);
  }
  file.write_attribute(kOptimizerGroup, kChecksum, std::int64_t{checksum});
}

/// Reads the parts of the state of an optimizer, which does not change.
decltype(Checkpoint::optimizer) read_optimizer(const Hdf5File& file, optim::Optimizer& optimizer) {
  decltype(Checkpoint::optimizer) read;
  const auto parts = optimizer.state();
  const auto stored = file.list(kOptimizerGroup);
  for (const std::string& name : stored) {
    const bool known = std::ranges::any_of(parts, [&](const optim::NamedSpan& part) { return part.name == name; });
    FLOODTIDE_REQUIRE(known, invalid_file, "checkpoint ", file.path(), ": it holds the optimizer state '", name,
                      "', which this run's optimizer does not have");
  }
  std::uint32_t checksum = 0;
  for (const optim::NamedSpan& part : parts) {
    const std::string name = optimizer_part(part.name);
    FLOODTIDE_REQUIRE(file.exists(name), invalid_file, "checkpoint ", file.path(), ": the optimizer state '", part.name,
                      "' is missing: it was written by another optimizer");
    std::visit(
        [&]<class T>(std::span<T> live) {
          auto& values = std::get<std::vector<T>>(read.emplace_back(std::vector<T>(live.size())));
          const std::int64_t shape[] = {std::ssize(values)};
          file.read_into<T>(name, shape, values);
          checksum = crc32c(std::as_bytes(std::span(values)), checksum);
          const std::string what = str_cat("checkpoint ", file.path(), ": ", name);
          if constexpr (std::is_same_v<T, float>) {
            require_finite(values, what);
          } else {
            for (const T count : values) require_in(kSteps, count, what, ErrorCode::invalid_file);
          }
        },
        part.values);
  }
  require_checksum(file, kOptimizerGroup, checksum);
  return read;
}

data::DatasetOptions canvas_options(const Vec3& canvas) {
  return {.chunks = {1, canvas[0], canvas[1], canvas[2]}, .gzip = kGzip};
}

Hdf5File start_file(const std::string& path, const CheckpointTexts& texts, const CheckpointState& state) {
  Hdf5File file = Hdf5File::create(path, {.command = "floodtide train",
                                          .objects = {kParametersGroup, kAverageGroup, "optimizer", "walkers"},
                                          .format = kCheckpointFormat});
  const std::int64_t walkers = state.walkers.options().walkers;
  write_network(file, state.walkers.network());
  if (!state.average.empty()) write_parameters(file, kAverageGroup, state.walkers.layout(), state.average);
  file.write_attribute("/", "step", state.step);
  if (state.rate_factor != 1) file.write_attribute("/", kRateFactor, state.rate_factor);
  if (!state.noise_scale.empty()) {
    const std::int64_t shape[] = {static_cast<std::int64_t>(state.noise_scale.size())};
    file.write_attribute<double>("/", kNoiseScale, shape, state.noise_scale);
  }
  file.write_attribute("/", "seed", static_cast<std::int64_t>(state.walkers.options().seed));
  file.write_attribute("/", "walkers", walkers);
  file.write_attribute("/", "configuration", texts.configuration);
  if (!texts.statistics.empty()) file.write_attribute("/", "statistics", texts.statistics);
  write_optimizer(file, state.optimizer);
  const std::int64_t positions[] = {walkers, static_cast<std::int64_t>(Position{}.size())};
  file.create_dataset(kPositions, data::ElementType::int64, positions);
  const std::int64_t checksums[] = {walkers, 2};
  file.create_dataset(kChecksums, data::ElementType::uint32, checksums);
  const Vec3 canvas = state.walkers.canvas_shape();
  if (volume(canvas) > 0) {
    const std::int64_t canvases[] = {walkers, canvas[0], canvas[1], canvas[2]};
    file.create_dataset(kCanvases, data::ElementType::float32, canvases, canvas_options(canvas));
  }
  return file;
}

/// CRC-32C of the position and of the canvas of a walker: one row of `walkers/crc32c`.
using Checksums = std::array<std::uint32_t, 2>;

Checksums checksums_of(const Position& position, View<const float, 3> canvas) {
  return {crc32c(std::as_bytes(std::span(position))), crc32c(std::as_bytes(canvas.span()))};
}

/// A walker as the file stores it, without its canvas, which takes `canvas_bytes` after compression.
struct StoredWalker {
  Position position;
  Checksums checksums;
  std::uint32_t skipped_filters;
  std::uint64_t canvas_bytes;
};

/// The walkers of a rank, and their compressed canvases, one after another.
struct StoredWalkers {
  std::vector<StoredWalker> walkers;
  std::vector<std::byte> canvases;
};

StoredWalkers stored_walkers(const Walkers& walkers) {
  StoredWalkers stored;
  for (std::int64_t slot = 0; slot < walkers.local(); ++slot) {
    const Position position = walkers.position(slot);
    const View<const float, 3> canvas = walkers.canvas(slot);
    std::pair<std::uint32_t, std::vector<std::byte>> chunk;
    if (canvas.size() > 0) chunk = data::filtered_chunk(canvas.span(), canvas_options(walkers.canvas_shape()));
    stored.walkers.push_back({position, checksums_of(position, canvas), chunk.first, chunk.second.size()});
    stored.canvases.insert(stored.canvases.end(), chunk.second.begin(), chunk.second.end());
  }
  return stored;
}

void send(comm::Communicator& communicator, const StoredWalkers& own) {
  if (own.walkers.empty()) return;
  communicator.send(0, kWalkersTag, std::as_bytes(std::span(own.walkers)))->wait();
  if (!own.canvases.empty()) communicator.send(0, kCanvasesTag, own.canvases)->wait();
}

StoredWalkers receive(comm::Communicator& communicator, int rank, std::size_t count) {
  StoredWalkers received{.walkers = std::vector<StoredWalker>(count), .canvases = {}};
  if (count == 0) return received;
  communicator.receive(rank, kWalkersTag, std::as_writable_bytes(std::span(received.walkers)))->wait();
  std::size_t bytes = 0;
  for (const StoredWalker& walker : received.walkers) bytes += walker.canvas_bytes;
  received.canvases.resize(bytes);
  if (bytes > 0) communicator.receive(rank, kCanvasesTag, received.canvases)->wait();
  return received;
}

/// Writes the walkers first, first + step, ...
void write_walkers(Hdf5File& file, std::int64_t first, std::int64_t step, const StoredWalkers& part) {
  std::span<const std::byte> rest(part.canvases);
  for (std::int64_t number = first; const StoredWalker& walker : part.walkers) {
    const std::int64_t start[] = {number, 0, 0, 0};
    const std::span<const std::int64_t> row = std::span(start).first(2);
    const std::int64_t one_row[] = {1, static_cast<std::int64_t>(walker.position.size())};
    file.write_block<std::int64_t>(kPositions, row, one_row, walker.position);
    const std::int64_t one_pair[] = {1, static_cast<std::int64_t>(walker.checksums.size())};
    file.write_block<std::uint32_t>(kChecksums, row, one_pair, walker.checksums);
    if (walker.canvas_bytes > 0) file.write_chunk(kCanvases, start, walker.skipped_filters, rest.first(walker.canvas_bytes));
    rest = rest.subspan(walker.canvas_bytes);
    number += step;
  }
}

Walkers::State read_walker(const Hdf5File& file, std::int64_t number, const Vec3& shape) {
  const std::string what = str_cat("checkpoint ", file.path(), ": walker ", number);
  Walkers::State state{.position = {}, .canvas = Tensor<float, 3>(shape)};
  auto& [position, canvas] = state;
  const std::int64_t row[] = {number, 0};
  const std::int64_t one_row[] = {1, static_cast<std::int64_t>(position.size())};
  file.read_block<std::int64_t>(kPositions, row, one_row, position);
  const bool active = position[kActive] != 0;
  if (active && canvas.size() > 0) {
    const std::int64_t start[] = {number, 0, 0, 0};
    const std::int64_t count[] = {1, shape[0], shape[1], shape[2]};
    file.read_block<float>(kCanvases, start, count, canvas.span());
  }
  Checksums stored{};
  const std::int64_t one_pair[] = {1, static_cast<std::int64_t>(stored.size())};
  file.read_block<std::uint32_t>(kChecksums, row, one_pair, stored);
  const Checksums found = checksums_of(position, std::as_const(canvas).view());
  FLOODTIDE_REQUIRE(stored[0] == found[0] && (!active || stored[1] == found[1]), invalid_file, what,
                    " is damaged, its checksum is wrong; use another copy of the file");
  require_in(kEpochs, position[0], what + ": epoch", ErrorCode::invalid_file);
  require_in(kPlaces, position[1], what + ": example", ErrorCode::invalid_file);
  require_in(kPlaces, position[2], what + ": move", ErrorCode::invalid_file);
  require_in(kFlag, position[kActive], what + ": whether it has an example", ErrorCode::invalid_file);
  if (active) require_finite(canvas.span(), what + ": canvas");
  return state;
}

/// Reads the walkers of this rank. They do not change before the returned function is called.
std::function<void()> read_walkers(const Hdf5File& file, Walkers& walkers) {
  std::vector<Walkers::State> states;
  for (std::int64_t slot = 0; slot < walkers.local(); ++slot) {
    states.push_back(read_walker(file, walkers.number(slot), walkers.canvas_shape()));
  }
  try {
    return walkers.resumption(states);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_range) throw;
    raise(ErrorCode::invalid_file, "checkpoint ", file.path(), ": ", error.what());
  }
}

double read_rate_factor(const Hdf5File& file) {
  if (!file.has_attribute("/", kRateFactor)) return 1;
  const auto array = file.read_attribute<double>("/", kRateFactor);
  const std::string what = str_cat("checkpoint ", file.path(), ": ", kRateFactor);
  FLOODTIDE_REQUIRE(array.values.size() == 1, invalid_file, what, " has ", array.values.size(), " values, expected one");
  require_in(kRateFactors, array.values[0], what, ErrorCode::invalid_file);
  return array.values[0];
}

/// Reads the state of the noise scale. A checkpoint of a run that did not measure it has none: the measurement starts anew.
std::vector<double> read_noise_scale(const Hdf5File& file, std::span<const double> state) {
  if (state.empty() || !file.has_attribute("/", kNoiseScale)) return {};
  auto array = file.read_attribute<double>("/", kNoiseScale);
  const bool finite = std::ranges::all_of(array.values, [](double value) { return std::isfinite(value); });
  FLOODTIDE_REQUIRE(array.values.size() == state.size() && finite && array.values[0] >= 0, invalid_file, "checkpoint ",
                    file.path(), ": ", kNoiseScale, " is damaged, expected ", state.size(), " finite numbers");
  return std::move(array.values);
}

/// Throws Error(invalid_file) unless the file has the same number of walkers and the same canvas size as this run.
void require_walkers(const Hdf5File& file, const Walkers& walkers) {
  const std::string what = str_cat("checkpoint ", file.path());
  FLOODTIDE_REQUIRE(file.has_attribute("/", "walkers"), invalid_file, what,
                    ": it holds a network but no training state to resume from");
  const std::int64_t stored = file.read_integer("/", "walkers");
  require_in(kWalkers, stored, what + ": walkers", ErrorCode::invalid_file);
  FLOODTIDE_REQUIRE(stored == walkers.options().walkers, invalid_file, what, ": it was written with ", stored,
                    " walkers, this run has ", walkers.options().walkers);
  const std::int64_t positions[] = {stored, static_cast<std::int64_t>(Position{}.size())};
  file.require_shape(kPositions, data::ElementType::int64, positions);
  const Vec3 canvas = walkers.canvas_shape();
  if (volume(canvas) == 0) return;
  const std::int64_t canvases[] = {stored, canvas[0], canvas[1], canvas[2]};
  file.require_shape(kCanvases, data::ElementType::float32, canvases);
}

}  // namespace

void save_checkpoint(const std::string& path, const CheckpointTexts& texts, const CheckpointState& state,
                     comm::Communicator& communicator) {
  const int ranks = communicator.size();
  std::exception_ptr failure;
  const auto attempt = [&](auto&& work) {
    if (failure) return;  // rank 0 still receives, so that senders do not wait for ever
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  StoredWalkers own;
  attempt([&] { own = stored_walkers(state.walkers); });
  comm::agree(communicator, failure);
  if (communicator.rank() > 0) {
    send(communicator, own);
  } else {
    std::optional<Hdf5File> file;
    attempt([&] { file = start_file(path, texts, state); });
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t count = (state.walkers.options().walkers - rank + ranks - 1) / ranks;
      const StoredWalkers part = rank == 0 ? std::move(own) : receive(communicator, rank, static_cast<std::size_t>(count));
      attempt([&] { write_walkers(*file, rank, ranks, part); });
    }
    attempt([&] { file->commit(); });
  }
  comm::agree(communicator, failure);
}

Checkpoint read_checkpoint(const std::string& path, const CheckpointState& state) {
  const Hdf5File file = Hdf5File::open(path);
  Walkers& walkers = state.walkers;
  Checkpoint read;
  require_network(file, walkers.network());
  read.parameters.resize(static_cast<std::size_t>(walkers.layout().size()));
  read_parameters(file, kParametersGroup, walkers.layout(), read.parameters);
  // If the checkpoint has no average, the average starts from the parameters.
  read.average.resize(state.average.size());
  if (!read.average.empty()) read_parameters(file, best_group(file), walkers.layout(), read.average);
  require_walkers(file, walkers);
  read.step = file.read_integer("/", "step");
  require_in(kSteps, read.step, str_cat("checkpoint ", path, ": step"), ErrorCode::invalid_file);
  read.optimizer = read_optimizer(file, state.optimizer);
  read.noise_scale = read_noise_scale(file, state.noise_scale);
  read.resume_walkers = read_walkers(file, walkers);
  read.rate_factor = read_rate_factor(file);
  return read;
}

void restore(const Checkpoint& checkpoint, const CheckpointState& state) {
  {
    const nn::NetworkUse::Hold change = state.walkers.use().change();
    std::ranges::copy(checkpoint.parameters, state.walkers.parameters().begin());
  }
  std::ranges::copy(checkpoint.average, state.average.begin());
  const auto parts = state.optimizer.state();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::visit(
        [&]<class T>(std::span<T> live) { std::ranges::copy(std::get<std::vector<T>>(checkpoint.optimizer[i]), live.begin()); },
        parts[i].values);
  }
  std::ranges::copy(checkpoint.noise_scale, state.noise_scale.begin());
  checkpoint.resume_walkers();
}

}  // namespace floodtide::train
