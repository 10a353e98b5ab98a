// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace floodtide::train {

/// Verify every checksum of the checkpoint file `path`. The whole file is read; it may belong to any run.
///
/// Memory use: about one copy of the parameters. Throws Error(invalid_file) if the file is not a checkpoint, or is damaged.
void require_intact(const std::string& path);

}  // namespace floodtide::train
