// SPDX-License-Identifier: Apache-2.0
// A network in a file: attributes of the file that say what it is, and the group `parameters` with one dataset a named array,
// laid out as in google/ffn's checkpoints. docs/formats.md describes it.
#pragma once

#include <optional>
#include <string>

#include "floodtide/data/hdf5.hpp"
#include "floodtide/nn/ffn.hpp"

namespace floodtide::train {

inline constexpr const char* kCheckpointFormat = "floodtide checkpoint";
inline constexpr std::int64_t kCheckpointVersion = 1;

/// Writes attributes and parameters into a file that is being created.
void write_network(data::Hdf5File& file, const nn::Ffn& network);

/// Reads the parameters into a network of the same architecture. Throws Error(invalid_file) if the file is no checkpoint, of
/// another version or of another network, saying what differs.
void read_network(const data::Hdf5File& file, nn::Ffn& network);

/// The architecture that a checkpoint holds. Throws Error(invalid_file) likewise.
[[nodiscard]] nn::FfnOptions read_options(const data::Hdf5File& file);

}  // namespace floodtide::train
