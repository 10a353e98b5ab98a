// SPDX-License-Identifier: Apache-2.0
// Runs the schedule of one rank.
//
// Steps are split into segments, which take effect in a fixed order. A window of a few segments is in progress. A segment may
// be received or sent early, if no earlier segment still needs its elements. Arrived values are combined strictly in order, so
// that the order of summation never depends on timing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "floodtide/base/error.hpp"
#include "floodtide/base/immovable.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/communicator.hpp"
#include "floodtide/comm/schedule.hpp"

namespace floodtide::comm {

/// The array that a schedule moves, and its type.
struct Payload {
  std::byte* data = nullptr;
  /// Array of the ranges that are sent, if it is not `data`; null: `data`. Only for schedules that neither reduce values nor
  /// pass received values on.
  const std::byte* source = nullptr;
  std::size_t element_bytes = 1;
  ReduceType type = ReduceType::float32;  ///< for reductions
  ReduceOp op = ReduceOp::sum;
  Wire wire = Wire::native;

  /// Return the payload of a reduction of this array.
  [[nodiscard]] static Payload of(const ReduceBuffer& buffer, ReduceOp op, Wire wire = Wire::native) noexcept {
    return {
        .data = buffer.data, .element_bytes = comm::element_bytes(buffer.type), .type = buffer.type, .op = op, .wire = wire};
  }
  [[nodiscard]] std::size_t wire_bytes() const noexcept { return wire == Wire::bf16 ? 2 : element_bytes; }
};

/// Throws Error(invalid_argument) unless arrays of this type can be sent in this format.
inline void require_wire(const char* operation, Wire wire, ReduceType type) {
  FLOODTIDE_REQUIRE(wire == Wire::native || type == ReduceType::float32, invalid_argument, operation, ": the wire format ",
                    name(wire), " is for float32, got ", name(type));
}

/// Further steps that can be planned only after the first ones, because they depend on the data received. They must not need
/// scratch memory.
struct Stage {
  SharedSchedule schedule;
  Payload payload;
  std::int64_t segment = 1;  ///< elements
};
using NextStage = std::function<Stage()>;

class Execution : Immovable {
 public:
  /// `scratch` has at least scratch_bytes(...) bytes. `scratch` and the arrays of the payload must outlive the execution.
  /// `next` may be empty. The thread that drives the execution calls it once, without the lock of the Python interpreter.
  Execution(Communicator& comm, SharedSchedule schedule, const Payload& payload, std::int64_t segment, int tag,
            std::span<std::byte> scratch, NextStage next = {});

  /// Return the number of elements of a segment whose message has at most `segment_bytes` bytes, at least 1.
  [[nodiscard]] static std::int64_t segment_elements(const Payload& payload, std::size_t segment_bytes);
  [[nodiscard]] static std::size_t scratch_bytes(const MessageSchedule& schedule, const Payload& payload, std::int64_t segment);

  /// Sets the tag of all messages. Call this before the first advance().
  void use_tag(int tag) { tag_ = tag; }
  /// Advances as far as possible without waiting. Returns true if something moved. Throws Error(communication).
  bool advance();
  [[nodiscard]] bool done() const { return stage_done() && !next_; }
  /// Return the current step as text: "step 3 of 6, waiting for rank 2".
  [[nodiscard]] std::string position() const;

 private:
  static constexpr std::size_t kWindow = 3;

  /// One segment of a step.
  struct Segment {
    MessageStep step;  // the step, with its ranges reduced to the segment
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
  SharedSchedule schedule_;
  Payload payload_;
  std::int64_t segment_;
  int tag_;
  std::span<std::byte> scratch_;
  std::size_t slot_bytes_;
  NextStage next_;  // owns the memory of the messages below, and is therefore destroyed after them
  std::array<Segment, kWindow> window_;
  std::array<Departure, kWindow> departures_;  // index: number of the segment modulo kWindow
  int departing_ = 0;
  std::int64_t head_ = 0;           // number of the first segment in the window; all segments before have taken effect
  std::int64_t tail_ = 0;           // number after the last segment in the window
  std::int64_t next_sent_ = 0;      // segments before this number have been sent
  std::int64_t next_expected_ = 0;  // the receives of segments before this number are posted
  std::size_t next_step_ = 0;       // step of the first segment after the window
  std::int64_t next_part_ = 0;      // index of this segment in its step
};

}  // namespace floodtide::comm
