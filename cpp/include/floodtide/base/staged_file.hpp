// SPDX-License-Identifier: Apache-2.0
// Outputs that appear under their name only when they are complete.
//
// Every file that floodtide replaces is first written under a temporary name in the same folder, brought to disk, and renamed.
// The temporary name is `.NAME.PID-RANDOM.floodtide-tmp`. floodtide creates it with O_EXCL and O_NOFOLLOW,
// so it never follows a link that another user has put there. The random part gives two writers two names.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace floodtide {

inline constexpr std::string_view kTemporarySuffix = ".floodtide-tmp";

/// The file that an output named `path` would replace: symbolic links are followed, also one whose target does not exist.
/// Throws Error(invalid_argument) if that is a folder, a device or anything else but a regular file, if it is
/// write-protected, or if a link in a folder like /tmp belongs to another user; Error(io) if the folder is missing.
[[nodiscard]] std::string output_target(const std::string& path);

/// A file that replaces another one only when it is complete. Move-only; removed if it is destroyed before commit().
class StagedFile {
 public:
  /// Creates the temporary file beside `output_target(path)`. It gets the permissions of the file that it will replace. If
  /// there is no such file, it gets the default permissions (umask). Throws as output_target does, and Error(io) if the
  /// file cannot be created.
  explicit StagedFile(std::string path);
  StagedFile(StagedFile&&) noexcept;
  StagedFile& operator=(StagedFile&&) noexcept;
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  ~StagedFile();

  /// The path as the caller gave it: what messages name.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The file that is to be replaced.
  [[nodiscard]] const std::string& target() const noexcept { return target_; }
  /// Whether there is such a file now.
  [[nodiscard]] bool replaces() const noexcept { return before_.has_value(); }
  /// A name by which a library opens the temporary file again: that of the descriptor, which leads to the very file that was
  /// created whatever has happened to the temporary name since. Without /proc it is the temporary name.
  [[nodiscard]] std::string open_name() const;

  /// Appends bytes. Throws Error(io).
  void write(std::span<const std::byte> bytes);
  /// Copies the file to be replaced: shares its blocks where the file system can.
  /// Throws Error(io), also before the first byte if the disk has too little space for a copy.
  void copy_target();
  /// Waits until the file is on disk, and gives it its name. If another process has changed or made the target since the
  /// constructor, nothing is replaced: the new file stays beside it under a name that the message tells. Throws Error(io).
  /// @param durable  false, for records of a job that is ending: neither wait for the disk nor look for other writers.
  void commit(bool durable = true);
  /// Removes the temporary file, and frees its space even if a library still has it open.
  void discard() noexcept;

 private:
  /// What tells whether a file is still the same one.
  struct Identity {
    unsigned long long device = 0, inode = 0;
    long long size = 0, changed_s = 0, changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };
  [[nodiscard]] static std::optional<Identity> identity(const std::string& path);
  [[noreturn]] void fail(int error) const;
  void keep_beside();

  std::string path_, target_, temporary_;
  std::optional<Identity> before_;
  int descriptor_ = -1;
};

/// Replaces a file by these bytes, as StagedFile does.
void replace_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace floodtide
