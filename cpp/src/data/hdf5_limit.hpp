// SPDX-License-Identifier: Apache-2.0
// Damaged bytes can make the HDF5 library loop for ever: in a list whose entry has the size 0, in a tree that refers to
// itself. Such a call cannot be interrupted. A thread therefore watches how much processor time the running call has taken
// (waiting for a slow file system is none), and ends the process with one line when that cannot be right any more.
#pragma once

#include <cstdint>
#include <string>

namespace floodtide::data {

inline constexpr double kHdf5LimitS = 10;  // of a call that reads no values; opening a file takes less than a millisecond

/// Limits the processor time of the HDF5 calls of a scope, and names the file if one of them crashes (hdf5_crash.hpp). Cheap:
/// two readings of a clock. Make it with the HDF5 lock held; one inside another does nothing.
class Hdf5Limit {
 public:
  /// @param path the file that is read; must outlive the scope
  /// @param bytes that are read into memory: every MiB of them allows for a second more
  /// @param limit_s processor time without these bytes
  explicit Hdf5Limit(const std::string& path, std::uint64_t bytes = 0, double limit_s = kHdf5LimitS);
  Hdf5Limit(const Hdf5Limit&) = delete;
  Hdf5Limit& operator=(const Hdf5Limit&) = delete;
  Hdf5Limit(Hdf5Limit&&) = delete;
  Hdf5Limit& operator=(Hdf5Limit&&) = delete;
  ~Hdf5Limit();

 private:
  bool outermost_;
};

}  // namespace floodtide::data
