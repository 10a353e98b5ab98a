// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace floodtide {

/// What one rank does and when: the last events in memory, for the record of a failure, and on request all of them in a file.
/// Any thread may call any function. One call costs well below a microsecond, because the file is written by flush() only.
class Timeline {
 public:
  /// Names and tracks are string literals. Times are nanoseconds of the monotonic clock.
  struct Event {
    std::string_view name;
    std::string_view track;    ///< what events share a line in a viewer: "step", "data", "communication"
    std::int64_t step = -1;    ///< optimizer update that it belongs to; -1: none
    std::int64_t bucket = -1;  ///< of the gradients; -1: none
    std::int64_t bytes = -1;   ///< moved; -1: none
    std::int64_t start_ns = 0;
    std::int64_t end_ns = -1;  ///< -1: under way
  };

  /// Remembers that many events.
  explicit Timeline(std::size_t remembered = 4096);
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  Timeline(Timeline&&) = delete;
  Timeline& operator=(Timeline&&) = delete;
  ~Timeline();  ///< flushes

  /// Starts an event now (start_ns and end_ns are set here); the number ends it.
  std::uint64_t begin(const Event& event);
  void end(std::uint64_t number);

  /// The events remembered, oldest first, those under way included.
  [[nodiscard]] std::vector<Event> last() const;
  /// The newest event under way on a track, if any: what a rank is waiting for.
  [[nodiscard]] std::optional<Event> current(std::string_view track) const;

  /// From now on finished events go to this file at each flush(): a Chrome trace (JSON array), valid after every write, so that
  /// a killed process leaves one that can be read. `offset_ns` is added to times: the way from this rank's clock to rank 0's.
  /// Throws Error(io).
  void open(const std::string& path, int rank, std::int64_t offset_ns);
  /// Appends what has ended since. Throws Error(io).
  void flush();

  /// Writes the events remembered, with `reason`, as one JSON object, beside the name and then renamed. Throws Error(io).
  void dump(const std::string& path, int rank, std::string_view reason) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// An event from construction to destruction; without a timeline nothing.
class ScopedEvent {
 public:
  ScopedEvent(Timeline* timeline, const Timeline::Event& event)
      : timeline_(timeline), number_(timeline != nullptr ? timeline->begin(event) : 0) {}
  ScopedEvent(const ScopedEvent&) = delete;
  ScopedEvent& operator=(const ScopedEvent&) = delete;
  ScopedEvent(ScopedEvent&&) = delete;
  ScopedEvent& operator=(ScopedEvent&&) = delete;
  ~ScopedEvent() {
    if (timeline_ != nullptr) timeline_->end(number_);
  }

 private:
  Timeline* timeline_;
  std::uint64_t number_;
};

}  // namespace floodtide
