// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/network_file.hpp"

#include <algorithm>

#include "floodtide/base/error.hpp"

namespace floodtide::train {
namespace {

constexpr const char* kFfn = "ffn";
constexpr const char* kUNet = "unet";

std::int64_t integer(const data::Hdf5File& file, const std::string& name) {
  return file.read_attribute<std::int64_t>("/", name).values.at(0);
}

Vec3 vector(const data::Hdf5File& file, const std::string& name) {
  const auto array = file.read_attribute<std::int64_t>("/", name);
  FLOODTIDE_REQUIRE(array.values.size() == 3, invalid_file, "checkpoint ", file.path(), ": attribute '", name, "' has ",
                    array.values.size(), " numbers, expected 3");
  return {array.values[0], array.values[1], array.values[2]};
}

std::vector<Vec3> vectors(const data::Hdf5File& file, const std::string& name) {
  const auto array = file.read_attribute<std::int64_t>("/", name);
  FLOODTIDE_REQUIRE(array.shape.size() == 2 && array.shape[1] == 3, invalid_file, "checkpoint ", file.path(), ": attribute '",
                    name, "' has shape ", Show{array.shape}, ", expected one of (n, 3)");
  std::vector<Vec3> result;
  for (std::size_t i = 0; i + 2 < array.values.size(); i += 3) {
    result.push_back({array.values[i], array.values[i + 1], array.values[i + 2]});
  }
  return result;
}

void write_vectors(data::Hdf5File& file, const std::string& name, std::span<const Vec3> values) {
  std::vector<std::int64_t> flat;
  for (const Vec3& value : values) flat.insert(flat.end(), value.begin(), value.end());
  const std::int64_t shape[] = {std::ssize(values), 3};
  file.write_attribute<std::int64_t>("/", name, shape, flat);
}

void write_kind(data::Hdf5File& file, const std::string& kind) {
  file.write_attribute("/", "format", std::string(kCheckpointFormat));
  file.write_attribute("/", "format_version", kCheckpointVersion);
  file.write_attribute("/", "kind", kind);
}

void require_kind(const data::Hdf5File& file, const std::string& expected) {
  const std::string kind = network_kind(file);
  FLOODTIDE_REQUIRE(kind == expected, invalid_file, "checkpoint ", file.path(), ": it holds a network of kind '", kind,
                    "', expected '", expected, "'");
}

}  // namespace

std::string network_kind(const data::Hdf5File& file) {
  FLOODTIDE_REQUIRE(file.has_attribute("/", "format") && file.read_text_attribute("/", "format") == kCheckpointFormat,
                    invalid_file, "checkpoint ", file.path(),
                    ": not a floodtide checkpoint (no attribute 'format' that says so)");
  const std::int64_t version = integer(file, "format_version");
  FLOODTIDE_REQUIRE(version == kCheckpointVersion, invalid_file, "checkpoint ", file.path(), ": format version ", version,
                    ", this floodtide reads version ", kCheckpointVersion);
  return file.read_text_attribute("/", "kind");
}

void write_network(data::Hdf5File& file, const nn::Ffn& network) {
  const nn::FfnOptions& options = network.options();
  const std::int64_t three[] = {3};
  write_kind(file, kFfn);
  file.write_attribute("/", "depth", std::int64_t{options.depth});
  file.write_attribute("/", "features", std::int64_t{options.features});
  file.write_attribute<std::int64_t>("/", "fov", three, options.fov);
  file.write_attribute<std::int64_t>("/", "deltas", three, options.deltas);
  write_parameters(file, kParametersGroup, network.layout(), network.parameters());
}

void write_network(data::Hdf5File& file, const nn::UNet& network) {
  const nn::UNetOptions& options = network.options();
  write_kind(file, kUNet);
  file.write_attribute("/", "in_channels", std::int64_t{options.in_channels});
  file.write_attribute("/", "classes", std::int64_t{options.classes});
  file.write_attribute("/", "depth", std::int64_t{options.depth});
  file.write_attribute("/", "features", std::int64_t{options.features});
  write_vectors(file, "kernels", options.kernels);
  write_vectors(file, "pools", options.pools);
  file.write_attribute("/", "output", std::string(nn::name(options.output)));
  file.write_attribute("/", "batch_norm", std::int64_t{options.batch_norm});
  write_parameters(file, kParametersGroup, network.layout(), network.parameters());
}

void write_parameters(data::Hdf5File& file, const std::string& group, const ParameterLayout& layout,
                      std::span<const float> values) {
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    file.write_array<float>(group + "/" + entry.name, entry.shape, part(values, entry));
  }
}

nn::FfnOptions read_options(const data::Hdf5File& file) {
  require_kind(file, kFfn);
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

nn::UNetOptions read_unet_options(const data::Hdf5File& file) {
  require_kind(file, kUNet);
  nn::UNetOptions options;
  options.in_channels = static_cast<int>(integer(file, "in_channels"));
  options.classes = static_cast<int>(integer(file, "classes"));
  options.depth = static_cast<int>(integer(file, "depth"));
  options.features = static_cast<int>(integer(file, "features"));
  options.kernels = vectors(file, "kernels");
  options.pools = vectors(file, "pools");
  options.output = nn::output_named(file.read_text_attribute("/", "output"));
  options.batch_norm = integer(file, "batch_norm") != 0;
  return options;
}

void read_network(const data::Hdf5File& file, nn::UNet& network, const std::string& group) {
  const nn::UNetOptions stored = read_unet_options(file);
  const nn::UNetOptions& here = network.options();
  FLOODTIDE_REQUIRE(stored.output == here.output && stored.batch_norm == here.batch_norm && stored.depth == here.depth,
                    invalid_file, "checkpoint ", file.path(), ": it holds a U-Net of depth ", stored.depth, " with ",
                    nn::name(stored.output), stored.batch_norm ? " and batch norm" : "", ", this one has depth ", here.depth,
                    " with ", nn::name(here.output), here.batch_norm ? " and batch norm" : "");
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
