// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <algorithm>

#include "base/plugin_file.hpp"
#include "floodtide/base/error.hpp"
#include "kernels/conv3d/dnnl_plugin.hpp"

namespace floodtide::kernels {
namespace {

// Limits from times of training passes, see docs/decisions/20261121-convolutions.md: up to kNarrow channels, Winograd's
// and the direct kernels are faster. With fewer than kFewest channels on one side, the direct kernels are faster.
constexpr std::int64_t kNarrow = 256;
constexpr std::int64_t kFewest = 16;

struct Plugin {
  DnnlMakePlan make_plan = nullptr;
  std::string problem;
};

Plugin load() {
  void* const library = ::dlopen(plugin_file(kDnnlPluginFile).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, str_cat("the plug-in cannot be loaded: ", ::dlerror())};
  void* const symbol = ::dlsym(library, kDnnlPluginSymbol);
  if (symbol == nullptr) return {nullptr, ::dlerror()};
  return {reinterpret_cast<DnnlMakePlan>(symbol), ""};
}

const Plugin& plugin() {
  static const Plugin loaded = load();
  return loaded;
}

}  // namespace

std::string dnnl_unsupported(const Conv3dShape&) { return plugin().problem; }

std::string dnnl_avoided(const Conv3dShape& shape) {
  const auto [fewest, most] = std::minmax(shape.in_channels, shape.out_channels);
  if (most <= kNarrow) return str_cat("at most ", kNarrow, " channels");
  return fewest < kFewest ? str_cat("fewer than ", kFewest, " channels on one side") : "";
}

std::unique_ptr<Conv3dPlan> make_dnnl_plan(const Conv3dShape& shape) {
  return std::unique_ptr<Conv3dPlan>(plugin().make_plan(shape));
}

}  // namespace floodtide::kernels
