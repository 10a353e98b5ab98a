// SPDX-License-Identifier: Apache-2.0
#include "floodtide/train/network_file.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>

#include "floodtide/base/crc32c.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/limits.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/limits.hpp"
#include "floodtide/nn/unet.hpp"

namespace floodtide::train {
namespace {

std::string where(const data::Hdf5File& file) { return str_cat("checkpoint ", file.path()); }

/// Return an attribute that is one integer within limits.
template <std::integral T>
T integer(const data::Hdf5File& file, const std::string& name, const Limits& limits) {
  return narrow<T>(file.read_integer("/", name), str_cat(where(file), ": ", name), limits, ErrorCode::invalid_file);
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
  require_in({0, nn::kUNetDepth.maximum}, array.shape[0], str_cat(where(file), ": number of ", name), ErrorCode::invalid_file);
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

/// Throws Error(invalid_file) unless a group has exactly the arrays of the layout. The number of members is checked first,
/// because this check is fast even if the attributes claim a very large network.
void require_arrays(const data::Hdf5File& file, const std::string& group, const std::string& scope, std::int64_t members,
                    const auto& options) {
  const std::string counted = scope.empty() ? group : group + "/" + scope;
  const std::int64_t found = std::ssize(file.list(counted));
  FLOODTIDE_REQUIRE(found == members, invalid_file, where(file), ": a network of depth ", options.depth, " has ", members,
                    " layers in ", counted, ", there are ", found);
  const ParameterLayout layout = nn::parameter_layout(options);
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    file.require_shape(group + "/" + entry.name, data::ElementType::float32, entry.shape);
  }
}

void write_ffn(data::Hdf5File& file, const nn::Network& network) {
  const nn::FfnOptions& options = dynamic_cast<const nn::Ffn&>(network).options();
  const std::int64_t three[] = {3};
  file.write_attribute("/", "depth", std::int64_t{options.depth});
  file.write_attribute("/", "features", std::int64_t{options.features});
  file.write_attribute<std::int64_t>("/", "fov", three, options.fov);
  file.write_attribute<std::int64_t>("/", "deltas", three, options.deltas);
}

std::unique_ptr<nn::Network> empty_ffn(const data::Hdf5File& file, const std::string& group, kernels::Compute compute) {
  nn::FfnOptions options;
  options.depth = integer<int>(file, "depth", nn::kFfnDepth);
  options.features = integer<int>(file, "features", nn::kFfnFeatures);
  options.fov = vector(file, "fov");
  options.deltas = vector(file, "deltas");
  options.compute = compute;
  nn::require_valid(options, where(file), ErrorCode::invalid_file);
  require_arrays(file, group, "seed_update", 2 * std::int64_t{options.depth} + 1, options);
  return std::make_unique<nn::Ffn>(options, nn::Initial::zero);
}

void write_unet(data::Hdf5File& file, const nn::Network& network) {
  const nn::UNetOptions& options = dynamic_cast<const nn::UNet&>(network).options();
  file.write_attribute("/", "in_channels", std::int64_t{options.in_channels});
  file.write_attribute("/", "classes", std::int64_t{options.classes});
  file.write_attribute("/", "depth", std::int64_t{options.depth});
  file.write_attribute("/", "features", std::int64_t{options.features});
  write_vectors(file, "kernels", options.kernels);
  write_vectors(file, "pools", options.pools);
  file.write_attribute("/", "output", std::string(name(options.output)));
  file.write_attribute("/", "batch_norm", std::int64_t{options.batch_norm});
}

std::unique_ptr<nn::Network> empty_unet(const data::Hdf5File& file, const std::string& group, kernels::Compute compute) {
  nn::UNetOptions options;
  options.in_channels = integer<int>(file, "in_channels", nn::kUNetChannels);
  options.classes = integer<int>(file, "classes", nn::kClasses);
  options.depth = integer<int>(file, "depth", nn::kUNetDepth);
  options.features = integer<int>(file, "features", nn::kUNetFeatures);
  options.kernels = vectors(file, "kernels");
  options.pools = vectors(file, "pools");
  const std::string output = file.read_text_attribute("/", "output");
  FLOODTIDE_REQUIRE(output == name(nn::Output::softmax) || output == name(nn::Output::sigmoid), invalid_file, where(file),
                    ": output is '", output, "', expected softmax or sigmoid");
  options.output = named<nn::Output>(output);
  options.batch_norm = integer<int>(file, "batch_norm", {0, 1}) != 0;
  options.compute = compute;
  nn::require_valid(options, where(file), ErrorCode::invalid_file);
  require_arrays(file, group, "", 2 * std::int64_t{options.depth}, options);  // `depth` encoders, depth - 1 decoders, one head
  return std::make_unique<nn::UNet>(options, nn::Initial::zero);
}

/// How a kind of network is described by attributes of a file.
struct Kind {
  std::string_view name;  // as Network::kind()
  void (*write)(data::Hdf5File& file, const nn::Network& network);
  std::unique_ptr<nn::Network> (*empty)(const data::Hdf5File& file, const std::string& group, kernels::Compute compute);
};
constexpr Kind kKinds[] = {{"ffn", write_ffn, empty_ffn}, {"unet", write_unet, empty_unet}};

const Kind& kind_of(std::string_view name, const data::Hdf5File& file) {
  const auto found = std::ranges::find(kKinds, name, &Kind::name);
  FLOODTIDE_REQUIRE(found != std::end(kKinds), invalid_file, where(file), ": it holds a network of the unknown kind '", name,
                    "'");
  return *found;
}

}  // namespace

data::Hdf5Result network_result() {
  return {.command = "floodtide", .objects = {kParametersGroup}, .format = kCheckpointFormat};
}

void write_network(data::Hdf5File& file, const nn::Network& network) {
  file.write_attribute("/", "format", std::string(kCheckpointFormat));
  file.write_attribute("/", "format_version", kCheckpointVersion);
  file.write_attribute("/", "kind", std::string(network.kind()));
  kind_of(network.kind(), file).write(file, network);
  const nn::NetworkUse::Hold reading = network.use().read();
  write_parameters(file, kParametersGroup, network.layout(), network.parameters());
}

void write_parameters(data::Hdf5File& file, const std::string& group, const ParameterLayout& layout,
                      std::span<const float> values) {
  std::uint32_t checksum = 0;
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    const std::span<const float> array = part(values, entry);
    file.write_array<float>(group + "/" + entry.name, entry.shape, array, {.checksums = false});
    checksum = crc32c(std::as_bytes(array), checksum);
  }
  file.write_attribute(group, kChecksum, std::int64_t{checksum});
}

std::unique_ptr<nn::Network> empty_network(const data::Hdf5File& file, const std::string& group, kernels::Compute compute) {
  FLOODTIDE_REQUIRE(file.has_attribute("/", "format") && file.read_text_attribute("/", "format") == kCheckpointFormat,
                    invalid_file, where(file), ": not a floodtide checkpoint (no attribute 'format' that says so)");
  const std::int64_t version = file.read_integer("/", "format_version");
  FLOODTIDE_REQUIRE(version == kCheckpointVersion, invalid_file, where(file), ": format version ", version,
                    ", this floodtide reads version ", kCheckpointVersion);
  return kind_of(file.read_text_attribute("/", "kind"), file).empty(file, group, compute);
}

std::unique_ptr<nn::Network> read_network(const data::Hdf5File& file, kernels::Compute compute) {
  const std::string group = best_group(file);
  std::unique_ptr<nn::Network> network = empty_network(file, group, compute);
  read_parameters(file, group, network->layout(), network->parameters());
  return network;
}

void require_network(const data::Hdf5File& file, const nn::Network& network) {
  const std::string stored = empty_network(file)->summary(), here = network.summary();
  FLOODTIDE_REQUIRE(stored == here, invalid_file, where(file), ": it holds ", stored, ", this one is ", here);
}

void read_parameters(const data::Hdf5File& file, const std::string& group, const ParameterLayout& layout,
                     std::span<float> out_values) {
  std::uint32_t checksum = 0;
  for (const ParameterLayout::Entry& entry : layout.entries()) {
    const std::string name = group + "/" + entry.name;
    const std::span<float> array = part(out_values, entry);
    file.read_into<float>(name, entry.shape, array);
    checksum = crc32c(std::as_bytes(array), checksum);
    require_finite(array, str_cat(where(file), ": ", name));
  }
  require_checksum(file, group, checksum);
}

std::string best_group(const data::Hdf5File& file) { return file.exists(kAverageGroup) ? kAverageGroup : kParametersGroup; }

void require_finite(std::span<const float> values, const std::string& what) {
  const auto found = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  FLOODTIDE_REQUIRE(found == values.end(), invalid_file, what, ": value ", found - values.begin(), " is ", *found,
                    ", expected finite ones");
}

void require_checksum(const data::Hdf5File& file, const std::string& object, std::uint32_t found) {
  FLOODTIDE_REQUIRE(file.read_integer(object, kChecksum) == found, invalid_file, where(file), ": ", object,
                    " is damaged, its checksum is wrong; use another copy of the file");
}

}  // namespace floodtide::train
