// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/memory.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "floodtide/base/available_memory.hpp"
#include "floodtide/base/error.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace floodtide {
namespace {

constexpr std::size_t kLarge = std::size_t{64} << 20;  // arrays from this size check the available memory first

std::atomic<std::int64_t>& counter() {
  static std::atomic<std::int64_t> count{0};
  return count;
}

// Return a field of /proc/self/status in bytes. The file has kB.
std::size_t status_field([[maybe_unused]] const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoull(line.substr(field.size())) * 1024;
  }
  return 0;
}

}  // namespace

void* allocate_bytes(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes >= kLarge) require_memory(bytes, "an array");
  counter().fetch_add(1, std::memory_order_relaxed);
  const auto rounded_to = [&](std::size_t unit) { return (bytes + unit - 1) / unit * unit; };
  const std::size_t alignment = rounded_to(kHugePage) - bytes <= bytes / 2 ? kHugePage : kAlignment;
  const std::size_t rounded = rounded_to(alignment);
  void* pointer = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  FLOODTIDE_REQUIRE(pointer != nullptr, io, "out of memory: an array needs ", describe_bytes(static_cast<double>(bytes)));
#if defined(__linux__)
  // Loops access activations with long strides. Huge pages avoid most of the TLB misses.
  if (alignment == kHugePage) madvise(pointer, rounded, MADV_HUGEPAGE);
#endif
  std::memset(pointer, 0, rounded);
  return pointer;
}

void release_bytes(void* pointer) noexcept { std::free(pointer); }

float* Workspace::floats(std::int64_t count) {
  if (block_.size() < count) {
    block_ = {};  // free the old block first: both blocks together would need twice the memory
    block_ = AlignedBuffer<float>(count);
  }
  return block_.data();
}

std::int64_t allocation_count() noexcept { return counter().load(std::memory_order_relaxed); }

std::size_t peak_resident_bytes() { return status_field("VmHWM:"); }

std::size_t resident_bytes() { return status_field("VmRSS:"); }

std::size_t checked_bytes(std::int64_t count, std::size_t element_size) {
  FLOODTIDE_REQUIRE(count >= 0 && static_cast<std::size_t>(count) <= std::numeric_limits<std::size_t>::max() / 2 / element_size,
                    invalid_argument, "array: ", count, " elements of ", element_size, " bytes do not fit into memory");
  return static_cast<std::size_t>(count) * element_size;
}

}  // namespace floodtide
