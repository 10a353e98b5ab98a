// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/named.hpp"

namespace floodtide::kernels {

/// How convolutions compute. `fp32`: in single precision by the fastest kernel, also of transformed values (Winograd).
/// `fp32_direct`: each output as one sum of products.
enum class Compute { fp32, fp32_direct };
constexpr Names<Compute, 2> names_of(Compute) {
  return {"compute", {{{"fp32", Compute::fp32}, {"fp32-direct", Compute::fp32_direct}}}};
}

/// Receives one line for each choice of a kernel: the shape, the candidate taken and why each one before it was not.
/// The library itself prints nothing; the outermost layer sets this when FLOODTIDE_VERBOSE asks for it. Not thread-safe.
void set_dispatch_listener(std::function<void(std::string_view line)> listener);

struct KernelName {
  std::string_view name;  ///< as kernel_names() and benchmark rows show it
  Isa level;              ///< instruction set that it needs
};
/// The candidates for convolutions in the order in which they are tried.
[[nodiscard]] std::vector<KernelName> conv3d_kernel_names();

}  // namespace floodtide::kernels
