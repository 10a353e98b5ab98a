// SPDX-License-Identifier: Apache-2.0
// Children of fork(). A child has copies of all objects, but only the thread that called fork(). Threads, communicators and
// unfinished files of the parent are not the child's: the child must not wait for them, end them or remove them.
#pragma once

namespace floodtide {

/// Return the number of calls of fork() between the first process that called this function and this process. One read of
/// memory.
[[nodiscard]] int fork_depth() noexcept;

/// Remembers the process that made it.
class OwnProcess {
 public:
  /// True in the process that made this object, false in its children.
  [[nodiscard]] bool is_here() const noexcept { return fork_depth() == depth_; }

 private:
  int depth_ = fork_depth();
};

}  // namespace floodtide
