// SPDX-License-Identifier: Apache-2.0
// Damaged bytes can make the HDF5 library loop for ever, for example in a list with an entry of size 0, or in a tree that
// refers to itself. Such a call cannot be interrupted. A thread therefore watches the processor time of the running call,
// without the time of waiting for the file system. If the call exceeds its limit, the thread ends the process with one line.
#pragma once

#include <cstdint>
#include <string>

namespace floodtide::data {

inline constexpr double kHdf5LimitS = 10;  // of a call that reads no values; opening a file takes less than a millisecond

/// Limits the processor time of the HDF5 calls of a scope, and names the file if one of them crashes (hdf5_crash.hpp). Cheap:
/// two readings of a clock. Make it with the HDF5 lock held; one inside another does nothing.
class Hdf5Limit {
 public:
  /// @param path    the file that is read; must outlive the scope
  /// @param bytes   bytes that are read into memory; each MiB adds a second to the limit
  /// @param limit_s limit of the processor time in seconds, without these bytes
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
