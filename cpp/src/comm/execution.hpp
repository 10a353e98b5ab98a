// SPDX-License-Identifier: Apache-2.0
// Runs the schedule of one rank. Steps are cut into segments, numbered in the order in which they take effect; a window of a
// few segments is in work. A segment is received ahead of its turn, and sent ahead of its turn, when nothing before it still
// needs the elements; what has arrived is combined strictly in turn, so that the order of summation never depends on timing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// The array that a schedule moves, and how.
struct Payload {
  std::byte* data = nullptr;
  /// Another array that the steps' `sent` ranges are of, so that what is sent and what arrives never meet; null: they are of
  /// `data`. For schedules that neither reduce nor pass anything on.
  const std::byte* source = nullptr;
  std::size_t element_bytes = 1;
  ReduceType type = ReduceType::float32;  ///< for reductions
  ReduceOp op = ReduceOp::sum;
  Wire wire = Wire::native;

  [[nodiscard]] std::size_t wire_bytes() const noexcept { return wire == Wire::bf16 ? 2 : element_bytes; }
};

/// Steps that are known only when those before them are done, because what those brought says how many and how long. In place:
/// they need no scratch.
struct Stage {
  std::shared_ptr<const MessageSchedule> schedule;
  Payload payload;
  std::int64_t segment = 1;  ///< elements
};
using NextStage = std::function<Stage()>;

class Execution {
 public:
  /// `scratch` has at least scratch_bytes(...) bytes; it and the payload's array live as long as the execution. `next` may be
  /// empty; it is called once, without the interpreter's lock, by the thread that drives the execution.
  Execution(Communicator& comm, std::shared_ptr<const MessageSchedule> schedule, const Payload& payload, std::int64_t segment,
            int tag, std::span<std::byte> scratch, NextStage next = {});
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;
  Execution(Execution&&) = delete;
  Execution& operator=(Execution&&) = delete;
  ~Execution() = default;

  /// Elements of a segment whose message has at most segment_bytes.
  [[nodiscard]] static std::int64_t segment_elements(const Payload& payload, std::size_t segment_bytes);
  [[nodiscard]] static std::size_t scratch_bytes(const MessageSchedule& schedule, const Payload& payload, std::int64_t segment);

  /// Of all messages; before the first one.
  void use_tag(int tag) { tag_ = tag; }
  /// Does what can be done without waiting. True if something moved. Throws Error(communication).
  bool advance();
  [[nodiscard]] bool done() const { return stage_done() && !next_; }
  /// "step 3 of 6, waiting for rank 2"
  [[nodiscard]] std::string position() const;

 private:
  static constexpr std::size_t kWindow = 3;

  /// One segment of a step.
  struct Segment {
    MessageStep step;  // its ranges cut to the segment
    std::size_t step_number = 0;
    std::unique_ptr<Request> arrival;
  };
  struct Departure {
    Range range{0, 0};
    std::unique_ptr<Request> request;
  };

  [[nodiscard]] bool stage_done() const { return head_ == tail_ && all_planned() && departing_ == 0; }
  [[nodiscard]] bool all_planned() const { return next_step_ == schedule_->steps.size(); }
  [[nodiscard]] bool narrow() const { return payload_.wire != Wire::native; }
  [[nodiscard]] bool lands_in_place(const MessageStep& step) const { return !step.reduce && !narrow(); }
  [[nodiscard]] Segment& segment(std::int64_t number) { return window_[static_cast<std::size_t>(number) % kWindow]; }
  [[nodiscard]] std::span<std::byte> slot(std::size_t index, const Range& range);
  [[nodiscard]] std::span<std::byte> landing(std::int64_t number, const Range& range);
  [[nodiscard]] std::span<std::byte> values(const Range& range) const;
  [[nodiscard]] std::span<const std::byte> sent_values(const Range& range) const;
  [[nodiscard]] std::span<float> floats(const Range& range) const;

  bool advance_stage();
  bool fill();
  bool depart();
  bool expect();
  bool take();
  void apply(const MessageStep& step, std::span<const std::byte> arrived);
  [[nodiscard]] bool untouched_before(std::int64_t number, const Range& range, bool also_sent);
  [[nodiscard]] bool is_free(const Range& range);
  [[nodiscard]] bool has_left(Departure& departure);

  Communicator& comm_;
  std::shared_ptr<const MessageSchedule> schedule_;
  Payload payload_;
  std::int64_t segment_;
  int tag_;
  std::span<std::byte> scratch_;
  std::size_t slot_bytes_;
  NextStage next_;  // outlives the messages below: it owns what they are about
  std::array<Segment, kWindow> window_;
  std::array<Departure, kWindow> departures_;  // by number modulo kWindow
  int departing_ = 0;
  std::int64_t head_ = 0;           // number of the first segment in the window: all before it have taken effect
  std::int64_t tail_ = 0;           // one after the last
  std::int64_t next_sent_ = 0;      // those before it have been sent
  std::int64_t next_expected_ = 0;  // the receives of those before it are posted
  std::size_t next_step_ = 0;       // the first segment behind the window: its step, and which part of it
  std::int64_t next_part_ = 0;
};

}  // namespace floodtide::comm
