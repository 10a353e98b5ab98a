// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace floodtide {

/// Memory that this process could still get, in bytes: what the host has free (swap included), or less by its control groups
/// and its limit of address space; page caches count as free. No value where the system does not tell. `proc` and `groups` are
/// the folders where the system tells it; tests have their own.
[[nodiscard]] std::optional<std::size_t> available_bytes(const std::string& proc = "/proc",
                                                         const std::string& groups = "/sys/fs/cgroup");

/// Throws Error(io), "out of memory: what needs ..., ... are available", if there is less than that. Systems promise memory
/// that they do not have, and end a process that uses it: what is large asks before.
void require_memory(std::size_t bytes, std::string_view what);

/// "1.5 GiB"
[[nodiscard]] std::string describe_bytes(double bytes);

}  // namespace floodtide
