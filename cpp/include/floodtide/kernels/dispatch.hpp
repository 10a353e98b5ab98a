// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "floodtide/base/isa.hpp"
#include "floodtide/base/named.hpp"

namespace floodtide::kernels {

/// Arithmetic of convolutions. `fp32`: single precision with the fastest kernel, which may be a Winograd kernel.
/// `fp32_direct`: single precision, and each output is one sum of products (no Winograd kernels).
/// `bf16`: operands of convolutions between feature maps are rounded to bfloat16, and sums are float. Only flood-filling
/// networks on processors with AMX can.
enum class Compute { fp32, fp32_direct, bf16 };
constexpr Names<Compute, 3> names_of(Compute) {
  return {"compute", {{{"fp32", Compute::fp32}, {"fp32-direct", Compute::fp32_direct}, {"bf16", Compute::bf16}}}};
}

/// Set the function that receives one line of text for each choice of a kernel. The line contains the shape, the chosen
/// candidate, and the reason why each earlier candidate was refused. The library itself prints nothing: the Python bindings
/// call this if the environment variable FLOODTIDE_VERBOSE contains "dispatch". Not thread-safe.
void set_dispatch_listener(std::function<void(std::string_view line)> listener);

struct KernelName {
  std::string_view name;  ///< name in kernel_names() and in benchmark results
  Isa level;              ///< instruction-set level that the kernel needs
};
/// Return all convolution kernels, in the order in which the dispatch tries them.
[[nodiscard]] std::vector<KernelName> conv3d_kernel_names();

}  // namespace floodtide::kernels
