// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "floodtide/base/immovable.hpp"

namespace floodtide {

/// A regular file, open for reading.
class InputFile : Immovable {
 public:
  /// Opens a file. Opening a pipe does not wait for a writer. Throws Error(invalid_file) if the file is missing, cannot be
  /// opened, or is not a regular file. The message contains `expected`, for example "an HDF5 file".
  InputFile(const std::string& path, std::string_view expected);
  ~InputFile();

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// Reads into `bytes` from byte offset `at` of the file. Returns the number of bytes read, which is less than bytes.size()
  /// only at the end of the file. Throws Error(invalid_file) if the file cannot be read.
  std::size_t read(std::int64_t at, std::span<std::byte> bytes) const;

 private:
  std::string path_;
  int descriptor_;
  std::int64_t size_ = 0;
};

/// Return "a folder", "a pipe", "a socket" or "a device". `mode` is `st_mode` of a file that is not a regular file.
[[nodiscard]] const char* kind_of(mode_t mode) noexcept;

}  // namespace floodtide
