// SPDX-License-Identifier: Apache-2.0
#include "floodtide/base/staged_file.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#ifdef __linux__
#include <linux/fs.h>
#endif

#include "floodtide/base/error.hpp"
#include "floodtide/base/input_file.hpp"

namespace floodtide {
namespace {

constexpr int kMostLinks = 40;                // the limit of the Linux kernel
constexpr std::size_t kLongestStem = 128;     // bytes of the target's name in the temporary name; file systems allow 255
constexpr std::size_t kCopyBytes = 8u << 20;  // size of the copy buffer

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string beside(const std::string& path, const std::string& name) {
  return path.find('/') == std::string::npos ? name : path.substr(0, path.rfind('/') + 1) + name;
}

/// True if another user may have created the link to redirect our output. The rule is that of the kernel's protected_symlinks.
/// The link is in a sticky folder that all users may write, and belongs neither to this user nor to the owner of the folder.
bool prepared_by_another(const std::string& link, const struct stat& status) {
  struct stat folder{};
  if (::stat(folder_of(link).c_str(), &folder) != 0) return false;
  const bool shared = (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & S_IWOTH) != 0;
  return shared && status.st_uid != ::geteuid() && status.st_uid != folder.st_uid;
}

/// True if a link stands for an open file of a process, as /dev/stdout and /dev/fd/1 do. Its text may not be a file name.
bool is_open_file(const std::string& link) {
  std::error_code error;
  return std::filesystem::canonical(folder_of(link), error).native().starts_with("/proc/");
}

std::string link_target(const std::string& link) {
  std::vector<char> text(4096);
  const ssize_t length = ::readlink(link.c_str(), text.data(), text.size());
  FLOODTIDE_REQUIRE(length >= 0, io, link, ": cannot be read: ", std::strerror(errno));
  const std::string found(text.data(), static_cast<std::size_t>(length));
  return found.starts_with('/') ? found : beside(link, found);
}

std::string temporary_name(const std::string& target) {
  std::random_device random;
  const std::uint64_t number = (std::uint64_t{random()} << 32) | random();
  char unique[64];
  std::snprintf(unique, sizeof unique, ".%ld-%016llx", static_cast<long>(::getpid()), static_cast<unsigned long long>(number));
  return beside(target, str_cat(".", name_of(target).substr(0, kLongestStem), unique, kTemporarySuffix));
}

/// Waits until a folder's entries are on disk.
int synchronise_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  return error;
}

/// Copies the rest of a file, inside the kernel if the kernel supports it. Returns 0 or the error number.
int copy_rest(int from, int to) {
#ifdef __linux__
  while (true) {
    const ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, std::size_t{1} << 30, 0);
    if (copied == 0) return 0;
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) break;
    if (copied < 0) return errno;
  }
#endif
  std::vector<char> part(kCopyBytes);
  while (true) {
    const ssize_t read = ::read(from, part.data(), part.size());
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return read == 0 ? 0 : errno;
    for (ssize_t done = 0; done < read;) {
      const ssize_t written = ::write(to, part.data() + done, static_cast<std::size_t>(read - done));
      if (written < 0 && errno != EINTR) return errno;
      done += std::max<ssize_t>(written, 0);
    }
  }
}

}  // namespace

std::string output_target(const std::string& path) {
  FLOODTIDE_REQUIRE(!path.empty() && !path.ends_with('/'), invalid_argument, "output '", path,
                    "': expected the name of a file");
  FLOODTIDE_REQUIRE(path.find('\0') == std::string::npos, invalid_argument, "output '", path.c_str(),
                    "': a zero byte follows, expected the name of a file");
  std::string target = path;
  struct stat status{};
  for (int links = 0; ::lstat(target.c_str(), &status) == 0 && S_ISLNK(status.st_mode); ++links) {
    FLOODTIDE_REQUIRE(links < kMostLinks, invalid_argument, path, ": cannot be an output: too many symbolic links");
    FLOODTIDE_REQUIRE(!prepared_by_another(target, status), invalid_argument, path,
                      ": cannot be an output: a symbolic link of another user in a folder where everybody may write");
    FLOODTIDE_REQUIRE(!is_open_file(target), invalid_argument, path,
                      ": cannot be an output: leads to an open file of a process, expected the name of a file");
    target = link_target(target);
  }
  if (::lstat(target.c_str(), &status) == 0) {
    FLOODTIDE_REQUIRE(S_ISREG(status.st_mode), invalid_argument, path, ": cannot be an output: is ", kind_of(status.st_mode),
                      ", expected the name of a file");
    FLOODTIDE_REQUIRE(::access(target.c_str(), W_OK) == 0, invalid_argument, path,
                      ": exists and is write-protected: choose another name, or remove it first");
    return target;
  }
  const int error = errno;
  FLOODTIDE_REQUIRE(error != ENAMETOOLONG, invalid_argument, path, ": cannot be an output: ", std::strerror(error));
  FLOODTIDE_REQUIRE(error == ENOENT && ::stat(folder_of(target).c_str(), &status) == 0, io, path,
                    ": cannot be written: folder ", folder_of(target), ": ", std::strerror(error));
  return target;
}

std::optional<StagedFile::Identity> StagedFile::identity(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return Identity{.device = status.st_dev,
                  .inode = status.st_ino,
                  .size = status.st_size,
                  .changed_s = status.st_mtim.tv_sec,
                  .changed_ns = status.st_mtim.tv_nsec};
}

void StagedFile::fail(int error) const { raise(ErrorCode::io, path_, ": cannot be written: ", std::strerror(error)); }

StagedFile::StagedFile(std::string path) : path_(std::move(path)), target_(output_target(path_)), before_(identity(target_)) {
  do {
    temporary_ = temporary_name(target_);
    descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail(errno);
  struct stat status{};
  // Some file systems cannot set permissions. The new file then has the default ones, and its content is right.
  if (before_ && ::stat(target_.c_str(), &status) == 0) static_cast<void>(::fchmod(descriptor_, status.st_mode & 0777) == 0);
}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      before_(other.before_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      process_(other.process_) {}

StagedFile& StagedFile::operator=(StagedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(target_, other.target_);
  std::swap(temporary_, other.temporary_);
  std::swap(before_, other.before_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(process_, other.process_);
  return *this;
}

StagedFile::~StagedFile() { discard(); }

std::string StagedFile::open_name() const {
  std::string name = str_cat("/proc/self/fd/", descriptor_);
  struct stat ours{};
  struct stat found{};
  const bool same = ::fstat(descriptor_, &ours) == 0 && ::stat(name.c_str(), &found) == 0 && ours.st_dev == found.st_dev &&
                    ours.st_ino == found.st_ino;
  return same ? name : temporary_;
}

void StagedFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void StagedFile::copy_target() {
  const int from = ::open(target_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (from < 0) fail(errno);
  int error = 0;
  bool shared = false;
#ifdef FICLONE
  shared = ::ioctl(descriptor_, FICLONE, from) == 0;
#endif
  if (!shared) {
    struct statvfs disk{};
    const unsigned long long free = ::fstatvfs(descriptor_, &disk) == 0 ? 1ULL * disk.f_bavail * disk.f_frsize : ~0ULL;
    const auto size = static_cast<unsigned long long>(before_ ? before_->size : 0);
    if (free < size) {
      ::close(from);
      constexpr double kMib = 1 << 20;
      raise(ErrorCode::io, path_, ": cannot be written: to add to this file it is copied first, which takes ",
            static_cast<double>(size) / kMib, " MiB, and the disk has ", static_cast<double>(free) / kMib,
            " MiB left; write to a file of another name");
    }
    error = copy_rest(from, descriptor_);
  }
  ::close(from);
  if (error != 0) fail(error);
}

void StagedFile::commit(bool durable) {
  FLOODTIDE_REQUIRE(process_.is_here(), io, path_,
                    ": cannot be written: this process is a child (fork) of the one that writes it");
  if (durable && ::fsync(descriptor_) != 0) fail(errno);
  if (durable && identity(target_) != before_) keep_beside();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno);
  temporary_.clear();
  ::close(std::exchange(descriptor_, -1));
  const int error = durable ? synchronise_folder(folder_of(target_)) : 0;
  if (error != 0) fail(error);
}

void StagedFile::keep_beside() {
  // Without the dot and the suffix, the file does not look like a temporary file that may be deleted.
  std::string kept = temporary_;
  kept.erase(kept.size() - kTemporarySuffix.size());
  kept = beside(kept, name_of(kept).substr(1));
  if (::rename(temporary_.c_str(), kept.c_str()) != 0) fail(errno);
  temporary_.clear();
  raise(ErrorCode::io, path_, ": not replaced: another process has ", before_ ? "changed" : "made",
        " it in the meantime; the new file is ", kept);
}

void StagedFile::discard() noexcept {
  if (descriptor_ >= 0 && !temporary_.empty() && process_.is_here()) {
    static_cast<void>(::ftruncate(descriptor_, 0) == 0);
    ::unlink(temporary_.c_str());
  }
  temporary_.clear();
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void replace_file(const std::string& path, std::span<const std::byte> bytes) {
  StagedFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace floodtide
