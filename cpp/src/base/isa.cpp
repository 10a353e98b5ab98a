// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/isa.hpp"

#include <atomic>
#include <cstdlib>
#include <fstream>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/isa_scope.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

/// What active_isa() returns. Only tests change it.
std::atomic<Isa>& level_in_use() {
  static std::atomic<Isa> level = [] {
    const char* const cap = std::getenv("FLOODTIDE_ISA");
    return isa_up_to(cap == nullptr ? "" : cap);
  }();
  return level;
}

std::string find_amx_missing() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") && __builtin_cpu_supports("avx512bf16")) {
    constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM; source: Linux, Documentation/arch/x86/xstate.rst
    constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
    return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? "" : "the system refuses the use of AMX tiles";
  }
#endif
  return "the processor has no AMX with bfloat16";
}

}  // namespace

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

Isa isa_up_to(std::string_view cap) {
  if (cap.empty()) return processor_isa();
  for (const auto& [known, level] : names_of(Isa{}).rows) {
    if (known != cap) continue;
    FLOODTIDE_REQUIRE(level <= processor_isa(), unsupported, "FLOODTIDE_ISA is '", cap, "', this processor has at most '",
                      name(processor_isa()), "'");
    return level;
  }
  raise(ErrorCode::invalid_argument, "FLOODTIDE_ISA is '", cap, "', expected reference, generic, avx2 or avx512");
}

Isa active_isa() { return level_in_use().load(std::memory_order_relaxed); }

IsaScope::IsaScope(Isa level) : before_(level_in_use().exchange(level)) {}
IsaScope::~IsaScope() { level_in_use() = before_; }

std::string amx_missing() {
  static const std::string reason = find_amx_missing();
  return reason;
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

}  // namespace floodtide
