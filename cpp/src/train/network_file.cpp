// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/network_file.hpp"

#include <algorithm>

#include "floodtide/base/error.hpp"

namespace floodtide::train {
namespace {

constexpr const char* kKind = "ffn";

std::int64_t integer(const data::Hdf5File& file, const std::string& name) {
  return file.read_attribute<std::int64_t>("/", name).values.at(0);
}

Vec3 vector(const data::Hdf5File& file, const std::string& name) {
  const auto array = file.read_attribute<std::int64_t>("/", name);
  FLOODTIDE_REQUIRE(array.values.size() == 3, invalid_file, "checkpoint ", file.path(), ": attribute '", name, "' has ",
                    array.values.size(), " numbers, expected 3");
  return {array.values[0], array.values[1], array.values[2]};
}

}  // namespace

void write_network(data::Hdf5File& file, const nn::Ffn& network) {
  const nn::FfnOptions& options = network.options();
  const std::int64_t three[] = {3};
  file.write_attribute("/", "format", std::string(kCheckpointFormat));
  file.write_attribute("/", "format_version", kCheckpointVersion);
  file.write_attribute("/", "kind", std::string(kKind));
  file.write_attribute("/", "depth", std::int64_t{options.depth});
  file.write_attribute("/", "features", std::int64_t{options.features});
  file.write_attribute<std::int64_t>("/", "fov", three, options.fov);
  file.write_attribute<std::int64_t>("/", "deltas", three, options.deltas);
  write_parameters(file, kParametersGroup, network.layout(), network.parameters());
}

void write_parameters(data::Hdf5File& file, const std::string& group, const ParameterLayout& layout,
                      std::span<const float> values) {
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    file.write_array<float>(group + "/" + entry.name, entry.shape, part(values, entry));
  }
}

nn::FfnOptions read_options(const data::Hdf5File& file) {
  FLOODTIDE_REQUIRE(file.has_attribute("/", "format") && file.read_text_attribute("/", "format") == kCheckpointFormat,
                    invalid_file, "checkpoint ", file.path(),
                    ": not a floodtide checkpoint (no attribute 'format' that says so)");
  const std::int64_t version = integer(file, "format_version");
  FLOODTIDE_REQUIRE(version == kCheckpointVersion, invalid_file, "checkpoint ", file.path(), ": format version ", version,
                    ", this floodtide reads version ", kCheckpointVersion);
  const std::string kind = file.read_text_attribute("/", "kind");
  FLOODTIDE_REQUIRE(kind == kKind, invalid_file, "checkpoint ", file.path(), ": it holds a network of kind '", kind,
                    "', expected '", kKind, "'");
  nn::FfnOptions options;
  options.depth = static_cast<int>(integer(file, "depth"));
  options.features = static_cast<int>(integer(file, "features"));
  options.fov = vector(file, "fov");
  options.deltas = vector(file, "deltas");
  return options;
}

void read_network(const data::Hdf5File& file, nn::Ffn& network, const std::string& group) {
  const nn::FfnOptions stored = read_options(file);
  const nn::FfnOptions& here = network.options();
  FLOODTIDE_REQUIRE(stored.depth == here.depth && stored.features == here.features, invalid_file, "checkpoint ", file.path(),
                    ": it holds a network of depth ", stored.depth, " with ", stored.features, " features, this one has depth ",
                    here.depth, " and ", here.features, " features");
  read_parameters(file, group, network.layout(), network.parameters());
  network.parameters_changed();
}

void read_parameters(const data::Hdf5File& file, const std::string& group, const ParameterLayout& layout,
                     std::span<float> out_values) {
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    const auto array = file.read_array<float>(group + "/" + entry.name);
    FLOODTIDE_REQUIRE(array.shape == entry.shape, invalid_file, "checkpoint ", file.path(), ": ", group, "/", entry.name,
                      " has shape ", Show{array.shape}, ", expected ", Show{entry.shape});
    std::ranges::copy(array.values, part(out_values, entry).begin());
  }
}

std::string best_group(const data::Hdf5File& file) { return file.exists(kAverageGroup) ? kAverageGroup : kParametersGroup; }

}  // namespace floodtide::train
