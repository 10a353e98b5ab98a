// SPDX-License-Identifier: Apache-2.0
// Network in an HDF5 file. Attributes of the file describe the network. The group `parameters` has one dataset for each named
// array, with the layout of google/ffn's checkpoints. The group `average` has the same datasets, if the run averages its
// parameters. See docs/formats.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "floodtide/data/hdf5.hpp"
#include "floodtide/kernels/dispatch.hpp"
#include "floodtide/nn/network.hpp"

namespace floodtide::train {

inline constexpr const char* kCheckpointFormat = "floodtide checkpoint";
inline constexpr std::int64_t kCheckpointVersion = 1;
inline constexpr const char* kParametersGroup = "parameters";
inline constexpr const char* kAverageGroup = "average";

/// Return which existing file a network without training state may replace: only another file with nothing but a network. A
/// checkpoint of a run is not replaced, because its optimizer state and walkers would be lost.
[[nodiscard]] data::Hdf5Result network_result();

/// Write attributes and parameters of a network to a new file.
void write_network(data::Hdf5File& file, const nn::Network& network);

/// Write one array for each entry of the layout into a group. The attribute `crc32c` of the group is the CRC-32C of all arrays.
void write_parameters(data::Hdf5File& file, const std::string& group, const ParameterLayout& layout,
                      std::span<const float> values);

/// Throws Error(invalid_file) unless the file is a checkpoint of a network of the same architecture. The message says what
/// differs.
void require_network(const data::Hdf5File& file, const nn::Network& network);

/// Read the arrays of a layout from a group. Throws Error(invalid_file) if an array is missing, has another shape, has a value
/// that is not finite, or is damaged.
void read_parameters(const data::Hdf5File& file, const std::string& group, const ParameterLayout& layout,
                     std::span<float> out_values);

/// Return the group of parameters to use for inference: `average` if the file has it, otherwise `parameters`.
[[nodiscard]] std::string best_group(const data::Hdf5File& file);

/// Make a network like that in a checkpoint, with zeros as parameters.
///
/// The architecture is checked against its ranges and against the arrays of `group`. A damaged file can therefore not make the
/// caller allocate a network that is larger than the file. Throws Error(invalid_file) if the file is not a checkpoint, has
/// another format version or an unknown kind of network, and if a check fails.
[[nodiscard]] std::unique_ptr<nn::Network> empty_network(const data::Hdf5File& file,
                                                         const std::string& group = kParametersGroup,
                                                         kernels::Compute compute = kernels::Compute::fp32);
/// Read the network of a checkpoint, with the parameters of best_group(). Throws as empty_network() and read_parameters().
[[nodiscard]] std::unique_ptr<nn::Network> read_network(const data::Hdf5File& file,
                                                        kernels::Compute compute = kernels::Compute::fp32);

/// Throws Error(invalid_file) if a value is not finite. The message begins with `what`.
void require_finite(std::span<const float> values, const std::string& what);
/// Throws Error(invalid_file) unless `object` has an attribute `crc32c` that is `found`.
void require_checksum(const data::Hdf5File& file, const std::string& object, std::uint32_t found);
inline constexpr const char* kChecksum = "crc32c";

}  // namespace floodtide::train
