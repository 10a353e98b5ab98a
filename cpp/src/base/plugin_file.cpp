// SPDX-License-Identifier: Apache-2.0
#include "base/plugin_file.hpp"

#include <dlfcn.h>

#include <filesystem>

namespace floodtide {

std::string plugin_file(std::string_view name) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&plugin_file), &info) != 0 && info.dli_fname != nullptr) {
    const std::filesystem::path beside = std::filesystem::absolute(info.dli_fname).parent_path() / name;
    if (std::filesystem::exists(beside)) return beside;
  }
  return std::string(name);
}

}  // namespace floodtide
