// SPDX-License-Identifier: Apache-2.0
// End of the process when the HDF5 library cannot go on with a damaged file: it crashed, or it does not come to an end.
#pragma once

namespace floodtide::data {

/// Print one line, "<program>: <path>: <text>", remove the files of remove_at_end(), and end the process with status 2. On
/// other ranks than rank 0, wait for some seconds first: all ranks may read the same file, and the job needs only one line.
/// Safe in a signal handler.
[[noreturn]] void end_with_damaged_file(const char* path, const char* text) noexcept;

}  // namespace floodtide::data
