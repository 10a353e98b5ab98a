// SPDX-License-Identifier: Apache-2.0
// Several threads may use one network at the same time. This class decides who waits, and who is refused.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>

namespace floodtide::nn {

/// The threads that use the parameters of one network.
///
/// Any number of threads may read the parameters at the same time: in passes, and to copy the parameters. A change waits until
/// no other thread reads, and later readers wait until the change is over. A training step reads, and then changes. While a
/// thread runs a step, other threads may read; their steps and changes are refused with Error(in_use).
///
/// Waiting cannot become a deadlock, because it only waits for readings and changes that wait for nothing. A reading that calls
/// functions of the caller may wait, for other ranks or for the lock of the Python interpreter. Therefore nothing waits for
/// such a reading: it excludes steps and changes, which are refused. Callers release the lock of the interpreter before they
/// wait.
class NetworkUse {
 public:
  enum class Kind { reading, reading_that_calls, change, step };
  struct End {
    Kind kind{};
    void operator()(NetworkUse* use) const noexcept { use->end(kind); }
  };
  /// A use that lasts as long as the object.
  using Hold = std::unique_ptr<NetworkUse, End>;
  /// Whether a reading calls functions of the caller, which may wait.
  enum class Calls { none, caller };

  /// Read the parameters. Waits for a change. Throws Error(in_use) if the reading calls functions of the caller and another
  /// thread runs a step.
  [[nodiscard]] Hold read(Calls calls = Calls::none);
  /// Change the parameters. Waits for readings. Throws Error(in_use) if another thread runs a step, or if a reading calls
  /// functions of the caller.
  [[nodiscard]] Hold change();
  /// Run a training step, during which this thread may read and change. Throws Error(in_use) as change().
  [[nodiscard]] Hold step();

  /// Return a number that grows with each change of the parameters.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  /// Find out whether somebody has written to the parameters without change(). Counts as a change if they differ from those of
  /// the last call, or if change() was called since.
  void look_at(std::span<const float> parameters);
  /// Throws Error(in_use) if the parameters have changed since they had this version. @param work name in the message
  void require_version(std::uint64_t version, std::string_view work) const;

 private:
  void end(Kind kind) noexcept;
  void require_no_other_step() const;
  void require_alone() const;

  std::mutex mutex_;
  std::condition_variable ended_;  // a change, or the last reading
  int readings_ = 0;
  int readings_that_call_ = 0;  // those of `readings_` that call functions of the caller
  int waiting_changes_ = 0;     // new readings wait for these, so that a change does not wait for ever
  bool changing_ = false;
  int steps_ = 0;  // of `stepping_`, one inside the other
  std::thread::id stepping_;
  std::atomic<std::uint64_t> version_ = 1;
  std::optional<std::uint64_t> seen_;  // hash of the parameters, by look_at(); empty after a change
};

}  // namespace floodtide::nn
