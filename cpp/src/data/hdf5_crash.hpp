// SPDX-License-Identifier: Apache-2.0
// Damaged bytes can make the HDF5 library read beyond its memory. The process cannot go on then, but it can say in one line
// which file was being read, as for other damaged files, and exit with the status of wrong input.
#pragma once

#include <string>

namespace floodtide::data {

/// From now on, a crash of this thread (SIGSEGV, SIGBUS, SIGFPE, SIGABRT) prints one line that names the file, and ends the
/// process with status 2. Other threads, and other code, keep the handlers that were there. Nothing happens in builds with the
/// address sanitizer, which reports crashes itself. Not nested; `path` must live until end_reading().
void begin_reading(const std::string& path);
void end_reading() noexcept;

}  // namespace floodtide::data
