// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace floodtide {

/// Instruction-set levels that kernels exist for, in ascending order.
enum class Isa { reference, generic, avx2, avx512 };

[[nodiscard]] std::string_view name(Isa level) noexcept;

/// The highest level that the processor has.
[[nodiscard]] Isa processor_isa() noexcept;

/// The level in use: processor_isa(), or what FLOODTIDE_ISA (reference, generic, avx2, avx512) caps it to. The variable is
/// read at each call, so that tests can change it. Throws Error(unsupported) if the processor lacks the level asked for and
/// Error(invalid_argument) if the name is unknown.
[[nodiscard]] Isa active_isa();

/// Text of the processor's model, as the system names it.
[[nodiscard]] std::string processor_name();

}  // namespace floodtide
