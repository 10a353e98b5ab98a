// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/plan.hpp"

namespace floodtide::kernels {

inline constexpr const char* kDnnlPluginFile = "_dnnl.so";
inline constexpr const char* kDnnlPluginSymbol = "floodtide_dnnl_make_plan";

/// Function that the plug-in exports as kDnnlPluginSymbol. It returns a new plan, which the caller owns. If oneDNN reports an
/// error, it throws Error(internal) with oneDNN's message.
using DnnlMakePlan = Conv3dPlan* (*)(const Conv3dShape& shape);

/// Return why the plug-in cannot be loaded, or an empty text if it is loaded. The first call loads it; it is never unloaded.
[[nodiscard]] std::string dnnl_unsupported(const Conv3dShape& shape);
/// Return why our own kernels are expected to be faster, or an empty text if they are not.
[[nodiscard]] std::string dnnl_avoided(const Conv3dShape& shape);
[[nodiscard]] std::unique_ptr<Conv3dPlan> make_dnnl_plan(const Conv3dShape& shape);

}  // namespace floodtide::kernels
