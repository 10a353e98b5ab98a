// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace floodtide {

/// Return the number of bytes of memory that this process can still allocate, or no value if the system does not report it.
///
/// The result is the smallest of three limits: free memory of the host (swap included), the memory limits of the process's
/// control groups, and its address-space limit (RLIMIT_AS). Page caches count as free. Tests pass their own folders in place
/// of `proc` and `groups`.
[[nodiscard]] std::optional<std::size_t> available_bytes(const std::string& proc = "/proc",
                                                         const std::string& groups = "/sys/fs/cgroup");

/// Throws Error(io), "out of memory: `what` needs ..., ... are available", if less than `bytes` is available. Call this before
/// a large allocation: a system may grant more memory than it has, and then kill the process when the memory is used.
void require_memory(std::size_t bytes, std::string_view what);

/// Return a number of bytes as text, for example "1.5 GiB".
[[nodiscard]] std::string describe_bytes(double bytes);

}  // namespace floodtide
