// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace floodtide::train {

/// Reads all of a checkpoint and verifies every checksum, whatever run it belongs to. Memory: one copy of the parameters.
/// Throws Error(invalid_file) if the file is no checkpoint, or damaged.
void require_intact(const std::string& path);

}  // namespace floodtide::train
