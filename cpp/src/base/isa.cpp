// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/isa.hpp"

#include <cstdlib>
#include <fstream>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

#if defined(__x86_64__)
struct Bfloat16Units {
  bool avx512 = false;       // AVX512_BF16
  bool amx = false;          // AMX-TILE and AMX-BF16
  bool amx_allowed = false;  // the system saves tiles, and this process may use them
};

/// Return true if the system lets this process use tiles. Source: Linux, Documentation/arch/x86/xstate.rst.
bool ask_for_tiles() noexcept {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
#if defined(SYS_arch_prctl)
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

Bfloat16Units find_bfloat16_units() noexcept {
  Bfloat16Units units;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (processor_isa() < Isa::avx512 || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return units;
  constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;  // EDX of leaf 7
  units.amx = (d & kAmxBf16) != 0 && (d & kAmxTile) != 0;
  const bool has_subleaf = a >= 1;
  constexpr unsigned kAvx512Bf16 = 1U << 5;  // EAX of leaf 7, subleaf 1
  units.avx512 = has_subleaf && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvx512Bf16) != 0;
  units.amx_allowed = units.amx && ask_for_tiles();
  return units;
}

const Bfloat16Units& bfloat16_units() noexcept {
  static const Bfloat16Units units = find_bfloat16_units();
  return units;
}
#endif

std::string level_too_low(Isa level) {
  return level < Isa::avx512 ? str_cat("needs ", name(Isa::avx512), ", the level is ", name(level)) : "";
}

}  // namespace

std::string_view name(Isa level) noexcept {
  switch (level) {
    case Isa::reference: return "reference";
    case Isa::generic: return "generic";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "unknown";
}

Isa processor_isa() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("f16c")) return Isa::generic;  // avx2 and avx512 kernels use F16C for float16 conversions
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return Isa::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::generic;
}

Isa active_isa() {
  const char* cap = std::getenv("FLOODTIDE_ISA");
  if (cap == nullptr || *cap == '\0') return processor_isa();
  for (const Isa level : {Isa::reference, Isa::generic, Isa::avx2, Isa::avx512}) {
    if (name(level) != cap) continue;
    FLOODTIDE_REQUIRE(level <= processor_isa(), unsupported, "FLOODTIDE_ISA is '", cap, "', this processor has at most '",
                      name(processor_isa()), "'");
    return level;
  }
  raise(ErrorCode::invalid_argument, "FLOODTIDE_ISA is '", cap, "', expected reference, generic, avx2 or avx512");
}

std::string avx512_bf16_missing(Isa level) {
  const std::string reason = level_too_low(level);
  if (!reason.empty()) return reason;
#if defined(__x86_64__)
  if (bfloat16_units().avx512) return "";
#endif
  return "the processor has no AVX512-BF16";
}

std::string amx_bf16_missing(Isa level) {
  const std::string reason = level_too_low(level);
  if (!reason.empty()) return reason;
#if defined(__x86_64__)
  if (bfloat16_units().amx_allowed) return "";
  if (bfloat16_units().amx) return "the system does not let this process use AMX tiles";
#endif
  return "the processor has no AMX with bfloat16";
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace floodtide
