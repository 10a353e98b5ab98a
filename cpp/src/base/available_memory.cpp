// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/available_memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "floodtide/base/error.hpp"

namespace floodtide {
namespace {

using std::filesystem::path;

constexpr std::size_t kKilo = 1024;

std::optional<std::size_t> number_in(std::string_view text) {
  std::size_t value = 0;
  const auto begin = std::min(text.find_first_of("0123456789"), text.size());
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// Return the number in the first line of a file, or no value if the line has no number ("max") or the file is missing.
std::optional<std::size_t> number_of(const path& file) {
  std::ifstream stream(file);
  std::string line;
  return std::getline(stream, line) ? number_in(line) : std::nullopt;
}

/// Return the sum of the numbers in the lines "name value" that have one of these names.
std::size_t sum_of(const path& file, std::initializer_list<std::string_view> names) {
  std::size_t sum = 0;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::string_view name = std::string_view(line).substr(0, line.find_first_of(": "));
    if (std::ranges::find(names, name) != names.end()) sum += number_in(std::string_view(line).substr(name.size())).value_or(0);
  }
  return sum;
}

/// Return the bytes that a control group still allows, or no value if it has no limit.
std::optional<std::size_t> left_in(const path& group) {
  for (const auto& [limit, used] :
       {std::pair("memory.max", "memory.current"), std::pair("memory.limit_in_bytes", "memory.usage_in_bytes")}) {
    const auto most = number_of(group / limit);
    const auto now = number_of(group / used);
    if (!most || !now) continue;
    const std::size_t cache = sum_of(group / "memory.stat", {"inactive_file", "active_file"});
    const std::size_t taken = *now - std::min(*now, cache);
    return *most - std::min(*most, taken);
  }
  return std::nullopt;
}

/// Return the memory control groups (version 1 and 2) of this process, and all groups that contain them.
std::vector<path> groups_of(const path& proc, const path& root) {
  std::vector<path> found;
  std::ifstream stream(proc / "self/cgroup");
  for (std::string line; std::getline(stream, line);) {  // number:controllers:path
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = str_cat(",", line.substr(first + 1, second - first - 1), ",");
    if (controllers != ",," && controllers.find(",memory,") == std::string::npos) continue;
    const path base = controllers == ",," ? root : root / "memory";
    path relative = path(line.substr(second + 1)).relative_path();
    for (; !relative.empty(); relative = relative.parent_path()) found.push_back(base / relative);
    found.push_back(base);
  }
  return found;
}

std::optional<std::size_t> left_of_address_space(const path& proc) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const std::size_t used = sum_of(proc / "self/status", {"VmSize"}) * kKilo;
  return static_cast<std::size_t>(limit.rlim_cur) - std::min<std::size_t>(limit.rlim_cur, used);
}

}  // namespace

std::optional<std::size_t> available_bytes(const std::string& proc, const std::string& groups) {
  std::optional<std::size_t> least = left_of_address_space(proc);
  const auto take = [&least](std::optional<std::size_t> other) {
    if (other && (!least || *other < *least)) least = other;
  };
  if (const std::size_t free = sum_of(path(proc) / "meminfo", {"MemAvailable", "SwapFree"}); free > 0) take(free * kKilo);
  for (const path& group : groups_of(proc, groups)) take(left_in(group));
  return least;
}

void require_memory(std::size_t bytes, std::string_view what) {
  const auto available = available_bytes();
  FLOODTIDE_REQUIRE(!available || bytes <= *available, io, "out of memory: ", what, " needs ",
                    describe_bytes(static_cast<double>(bytes)), ", ", describe_bytes(static_cast<double>(*available)),
                    " are available");
}

std::string describe_bytes(double bytes) {
  constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  for (; bytes >= kKilo && unit + 1 < kUnits.size(); ++unit) bytes /= kKilo;
  std::array<char, 64> text{};
  static_cast<void>(std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]));
  return text.data();
}

}  // namespace floodtide
