// SPDX-License-Identifier: Apache-2.0
// The HDF5 library (1.10.8) crashes when it reads some damaged files, and does not come to an end with others. So a small
// program, in its own process, reads the metadata of a file before this process does (hdf5_checker.cpp). If that program
// crashes or takes too long, the file is refused. docs/decisions/20261122-file-integrity.md has the reasons.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace floodtide::data {

/// Have the program of set_hdf5_checker() read the metadata of a file. Return true if it has read all objects, false if it has
/// read only `object` (a full name, or empty) because there are too many. Returns true at once without such a program.
///
/// The answer is remembered until the file changes. Throws Error(invalid_file) if the HDF5 library crashed, or did not come to
/// an end, or if chunks do not have the size that they should have; Error(io) if the program cannot be run. The library's
/// errors throw nothing: the caller meets them too. Several threads may call this. A signal that arrives meanwhile waits.
bool check_hdf5(const std::string& path, const std::string& object = {});

/// Have the program read the block [start, start + count) of a dataset. Throws as check_hdf5() does.
void check_hdf5_block(const std::string& path, const std::string& dataset, std::span<const std::int64_t> start,
                      std::span<const std::int64_t> count);

}  // namespace floodtide::data
