// SPDX-License-Identifier: Apache-2.0
// A network in a file: attributes of the file that say what it is, and the group `parameters` with one dataset a named array,
// laid out as in google/ffn's checkpoints. A run that averages its parameters has a second such group, `average`.
// docs/formats.md describes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "floodtide/data/hdf5.hpp"
#include "floodtide/nn/ffn.hpp"
#include "floodtide/nn/unet.hpp"

namespace floodtide::train {

inline constexpr const char* kCheckpointFormat = "floodtide checkpoint";
inline constexpr std::int64_t kCheckpointVersion = 1;
inline constexpr const char* kParametersGroup = "parameters";
inline constexpr const char* kAverageGroup = "average";

/// What kind of network a checkpoint holds: "ffn" or "unet". Throws Error(invalid_file) if the file is no checkpoint, or of
/// another version.
[[nodiscard]] std::string network_kind(const data::Hdf5File& file);

/// What a file with a network alone may replace: another such file, and no checkpoint of a run, whose optimizer and walkers
/// would be lost.
[[nodiscard]] data::Hdf5Result network_result();

/// Writes attributes and parameters into a file that is being created.
void write_network(data::Hdf5File& file, const nn::Ffn& network);
void write_network(data::Hdf5File& file, const nn::UNet& network);

/// Writes an array for each entry of the layout into a group, and the CRC-32C of all of them as its attribute `crc32c`.
void write_parameters(data::Hdf5File& file, const std::string& group, const ParameterLayout& layout,
                      std::span<const float> values);

/// Reads a group of parameters, all of them finite, into a network of the same architecture. Throws Error(invalid_file) if the
/// file is no checkpoint, of another version or of another network, saying what differs.
void read_network(const data::Hdf5File& file, nn::Ffn& network, const std::string& group = kParametersGroup);
void read_network(const data::Hdf5File& file, nn::UNet& network, const std::string& group = kParametersGroup);

/// Reads a group of such arrays. Throws Error(invalid_file) where one is missing, has another shape, a value that is not
/// finite, or is damaged.
void read_parameters(const data::Hdf5File& file, const std::string& group, const ParameterLayout& layout,
                     std::span<float> out_values);

/// The group to use the network with: its average where there is one.
[[nodiscard]] std::string best_group(const data::Hdf5File& file);

/// The architecture that a checkpoint holds, checked against its ranges and against the arrays of a group, so that the network
/// has the file's size. Throws Error(invalid_file) likewise.
[[nodiscard]] nn::FfnOptions read_options(const data::Hdf5File& file, const std::string& group = kParametersGroup);
[[nodiscard]] nn::UNetOptions read_unet_options(const data::Hdf5File& file, const std::string& group = kParametersGroup);

/// True if damage to the file would be noticed: older versions of floodtide wrote no checksums.
[[nodiscard]] bool has_checksums(const data::Hdf5File& file);

/// Throws Error(invalid_file) starting with `what` if a value is not finite.
void require_finite(std::span<const float> values, const std::string& what);
/// Throws Error(invalid_file) if the attribute `crc32c` of an object is there and differs.
void require_checksum(const data::Hdf5File& file, const std::string& object, std::uint32_t found);
inline constexpr const char* kChecksum = "crc32c";

}  // namespace floodtide::train
