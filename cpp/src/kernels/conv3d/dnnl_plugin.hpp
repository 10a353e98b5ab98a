// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/plan.hpp"

namespace floodtide::kernels {

inline constexpr const char* kDnnlPluginFile = "_dnnl.so";
inline constexpr const char* kDnnlPluginSymbol = "floodtide_dnnl_make_plan";

/// What the plug-in exports under kDnnlPluginSymbol: a new plan, owned by the caller. Throws Error(internal) with oneDNN's
/// words where oneDNN refuses.
using DnnlMakePlan = Conv3dPlan* (*)(const Conv3dShape& shape);

/// Empty if the plug-in is there and can be loaded, else why not. Loads it at the first call; it stays loaded.
[[nodiscard]] std::string dnnl_unsupported(const Conv3dShape& shape);
[[nodiscard]] std::unique_ptr<Conv3dPlan> make_dnnl_plan(const Conv3dShape& shape);

}  // namespace floodtide::kernels
