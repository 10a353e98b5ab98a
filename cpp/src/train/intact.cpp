// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/intact.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "floodtide/base/crc32c.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/data/hdf5.hpp"
#include "floodtide/train/network_file.hpp"
#include "train/checkpoint.hpp"

namespace floodtide::train {
namespace {

using data::Hdf5File;

void check_parameters(const Hdf5File& file) {
  const std::unique_ptr<nn::Network> network = empty_network(file);
  const ParameterLayout& layout = network->layout();
  const std::span<float> values = network->parameters();
  read_parameters(file, kParametersGroup, layout, values);
  if (best_group(file) == kAverageGroup) read_parameters(file, kAverageGroup, layout, values);
}

/// The checksum covers the arrays in the order of Optimizer::state(). For every optimizer this is the alphabetical order of
/// names, which Hdf5File::list() returns.
void check_optimizer(const Hdf5File& file) {
  std::uint32_t checksum = 0;
  for (const std::string& part : file.list(kOptimizerGroup)) {
    const std::string name = str_cat(kOptimizerGroup, "/", part);
    if (data::is_integer(file.info(name).type)) {
      const auto array = file.read_array<std::int64_t>(name);
      checksum = crc32c(std::as_bytes(std::span(array.values)), checksum);
    } else {
      const auto array = file.read_array<float>(name);
      checksum = crc32c(std::as_bytes(std::span(array.values)), checksum);
    }
  }
  require_checksum(file, kOptimizerGroup, checksum);
}

/// Return the row of a walker in a dataset with one row per walker.
template <class T>
std::vector<T> row_of(const Hdf5File& file, const std::string& dataset, std::int64_t number) {
  std::vector<std::int64_t> count = file.info(dataset).shape;
  FLOODTIDE_REQUIRE(!count.empty() && number < count[0], invalid_file, "checkpoint ", file.path(), ": ", dataset,
                    " has no row for walker ", number);
  std::vector<std::int64_t> start(count.size(), 0);
  start[0] = number;
  count[0] = 1;
  std::vector<T> values(std::accumulate(count.begin(), count.end(), std::size_t{1}, std::multiplies<>()));
  file.read_block<T>(dataset, start, count, std::span(values));
  return values;
}

void check_walkers(const Hdf5File& file) {
  const std::int64_t walkers = file.read_integer("/", "walkers");
  const bool canvases = file.exists(kCanvases);
  for (std::int64_t number = 0; number < walkers; ++number) {
    const auto position = row_of<std::int64_t>(file, kPositions, number);
    const bool active = position.size() > kActive && position[kActive] != 0;
    const auto canvas = active && canvases ? row_of<float>(file, kCanvases, number) : std::vector<float>();
    const auto stored = row_of<std::uint32_t>(file, kChecksums, number);
    FLOODTIDE_REQUIRE(stored.size() == 2 && stored[0] == crc32c(std::as_bytes(std::span(position))) &&
                          (!active || stored[1] == crc32c(std::as_bytes(std::span(canvas)))),
                      invalid_file, "checkpoint ", file.path(), ": walker ", number, " is damaged, its checksum is wrong");
  }
}

}  // namespace

void require_intact(const std::string& path) {
  const Hdf5File file = Hdf5File::open(path);
  check_parameters(file);
  if (!file.has_attribute("/", "walkers")) return;  // the file has a network only
  static_cast<void>(file.read_integer("/", "step"));
  check_optimizer(file);
  check_walkers(file);
}

}  // namespace floodtide::train
