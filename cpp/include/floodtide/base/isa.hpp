// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "floodtide/base/named.hpp"

namespace floodtide {

/// Instruction-set levels for which kernels exist, in ascending order.
enum class Isa { reference, generic, avx2, avx512 };

constexpr Names<Isa, 4> names_of(Isa) {
  return {"level", {{{"reference", Isa::reference}, {"generic", Isa::generic}, {"avx2", Isa::avx2}, {"avx512", Isa::avx512}}}};
}

/// Return the highest level that the processor supports.
[[nodiscard]] Isa processor_isa() noexcept;

/// Return the level that kernels use: the value of the environment variable FLOODTIDE_ISA (reference, generic, avx2, avx512),
/// or processor_isa() if the variable is not set. The first call reads the variable, and later changes have no effect: a run
/// uses one level, and threads do not read the environment while another thread may change it.
/// Throws Error(unsupported) if the processor does not support the level, Error(invalid_argument) for an unknown name.
[[nodiscard]] Isa active_isa();

/// Return why this process cannot use the bfloat16 products of AMX tiles. Empty if it can. The first call on a processor with
/// AMX asks the system for the permission to use tiles, for all threads of the process.
[[nodiscard]] std::string amx_missing();

/// Return the processor's model name as the system reports it, or "unknown".
[[nodiscard]] std::string processor_name();

}  // namespace floodtide
