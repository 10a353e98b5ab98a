// SPDX-License-Identifier: Apache-2.0
// Output files that appear under their final name only when they are complete.
//
// floodtide writes each file under a temporary name in the same folder, waits until it is on disk, and renames it.
// The temporary name is `.NAME.PID-RANDOM.floodtide-tmp`. floodtide creates the temporary file with O_EXCL and O_NOFOLLOW, so
// that it never follows a link that another user has put there. The random part gives two writers different names.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "floodtide/base/own_process.hpp"

namespace floodtide {

inline constexpr std::string_view kTemporarySuffix = ".floodtide-tmp";

/// Return the path of the file that an output named `path` would replace. Symbolic links are followed, even if the target does
/// not exist.
///
/// Throws Error(invalid_argument) if the target is not a regular file, or is write-protected. Also throws it if a symbolic link
/// belongs to another user, in a folder that all users may write (such as /tmp). Throws Error(io) if the folder is missing.
[[nodiscard]] std::string output_target(const std::string& path);

/// An output file that replaces its target only when it is complete. If this object is destroyed before commit(), the
/// temporary file is removed, but not by a child of fork(), whose parent writes the file. Move-only.
class StagedFile {
 public:
  /// Creates the temporary file in the folder of `output_target(path)`. The temporary file gets the permissions of the file
  /// that it will replace. Without such a file, it gets the default permissions (umask). Throws as output_target does, and
  /// Error(io) if the temporary file cannot be created.
  explicit StagedFile(std::string path);
  StagedFile(StagedFile&&) noexcept;
  StagedFile& operator=(StagedFile&&) noexcept;
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  ~StagedFile();

  /// Return the path as the caller gave it. Error messages name this path.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Return the path of the file that commit() will replace or create.
  [[nodiscard]] const std::string& target() const noexcept { return target_; }
  /// Return a name with which a library can open the temporary file again: /proc/self/fd/N for our open descriptor N. This
  /// name leads to the file that the constructor created, even if another file now has the temporary name. Without /proc,
  /// return the temporary name.
  [[nodiscard]] std::string open_name() const;

  /// Appends bytes. Throws Error(io).
  void write(std::span<const std::byte> bytes);
  /// Copies the target into the temporary file. The two files share their blocks if the file system supports this.
  /// Throws Error(io). Too little disk space for the copy is reported before the first byte is written.
  void copy_target();
  /// Waits until the file is on disk, and renames it to the target. Throws Error(io), also in a child of fork().
  ///
  /// If another process has changed or created the target since the constructor, commit() throws and does not replace it. The
  /// new file stays in the same folder, under a name that the message contains.
  /// @param durable  if false, neither wait for the disk nor check for other writers; for records of a job that is ending
  void commit(bool durable = true);
  /// Removes the temporary file. Its disk space is freed even if a library still has the file open.
  void discard() noexcept;

 private:
  /// Properties by which we notice that a file was replaced or changed.
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
  OwnProcess process_;
};

/// Replaces the file `path` by a file with these bytes. Throws as StagedFile does.
void replace_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace floodtide
