// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "floodtide/base/immovable.hpp"

namespace floodtide {

/// Record of the events of one rank, with their times. The last events stay in memory and are written when the job fails. After
/// open(), all events also go to a file. Any thread may call any function. begin() and end() do not write the file: only
/// flush() does.
class Timeline : Immovable {
 public:
  /// One event. Times are nanoseconds of the monotonic clock. `name` and `track` must be string literals: they are not copied.
  struct Event {
    std::string_view name;
    std::string_view track;    ///< the viewer shows the events of a track on one line: "step", "data", "communication"
    std::int64_t step = -1;    ///< training step that the event belongs to; -1: none
    std::int64_t bucket = -1;  ///< index of the gradient bucket; -1: none
    std::int64_t bytes = -1;   ///< number of bytes moved; -1: none
    std::int64_t start_ns = 0;
    std::int64_t end_ns = -1;  ///< -1: the event has not ended
  };

  /// Keeps the last `remembered` events in memory. Throws Error(invalid_argument) if `remembered` is 0.
  explicit Timeline(std::size_t remembered = 4096);
  ~Timeline();  ///< flushes

  /// Starts an event now, and returns its number. start_ns and end_ns of `event` are ignored.
  std::uint64_t begin(const Event& event);
  /// Ends the event with this number now.
  void end(std::uint64_t number);

  /// Return the events in memory, oldest first. Events that have not ended are included.
  [[nodiscard]] std::vector<Event> last() const;
  /// Return the newest event on a track that has not ended, or no value.
  [[nodiscard]] std::optional<Event> current(std::string_view track) const;

  /// From now on, write events that have ended to the file `path` at each flush(). The file is a Chrome trace (JSON array). It
  /// is valid after every write, so that a killed process leaves a file that can be read. `offset_ns` is added to all times: it
  /// converts the clock of this rank to the clock of rank 0. Throws Error(io).
  void open(const std::string& path, int rank, std::int64_t offset_ns);
  /// Appends the events that have ended since the last flush() to the file. Throws Error(io).
  void flush();

  /// Writes the events in memory and `reason` to the file `path` as one JSON object, through a StagedFile. Throws Error(io).
  void dump(const std::string& path, int rank, std::string_view reason) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Event that starts when this object is constructed and ends when it is destroyed. Does nothing if `timeline` is null.
class ScopedEvent : Immovable {
 public:
  ScopedEvent(Timeline* timeline, const Timeline::Event& event)
      : timeline_(timeline), number_(timeline != nullptr ? timeline->begin(event) : 0) {}
  ~ScopedEvent() {
    if (timeline_ != nullptr) timeline_->end(number_);
  }

 private:
  Timeline* timeline_;
  std::uint64_t number_;
};

}  // namespace floodtide
