// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "floodtide/base/error.hpp"

namespace floodtide {

InputFile::InputFile(const std::string& path, std::string_view expected)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  FLOODTIDE_REQUIRE(descriptor_ >= 0 || errno != ENOENT, invalid_file, path, ": no such file");
  FLOODTIDE_REQUIRE(descriptor_ >= 0, invalid_file, path, ": cannot be opened as ", expected, ": ", std::strerror(errno));
  try {
    struct stat status{};
    FLOODTIDE_REQUIRE(::fstat(descriptor_, &status) == 0, invalid_file, path, ": cannot be read: ", std::strerror(errno));
    FLOODTIDE_REQUIRE(S_ISREG(status.st_mode), invalid_file, path, ": is ", kind_of(status.st_mode), ", expected ", expected);
    size_ = status.st_size;
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() { ::close(descriptor_); }

std::size_t InputFile::read(std::int64_t at, std::span<std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at) + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    FLOODTIDE_REQUIRE(got >= 0, invalid_file, path_, ": cannot be read: ", std::strerror(errno));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

const char* kind_of(mode_t mode) noexcept {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace floodtide
