// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace floodtide {

/// Return what dlopen() needs in order to load the plug-in `name`, a file name: its path, if it lies beside the file that
/// contains this code (the Python module, or a program). Otherwise `name` itself: dlopen() then searches the folders that
/// the program was linked with, to which the CMake package floodtide adds the folder of the plug-ins, and LD_LIBRARY_PATH.
[[nodiscard]] std::string plugin_file(std::string_view name);

}  // namespace floodtide
