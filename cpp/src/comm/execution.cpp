// SPDX-License-Identifier: Apache-2.0
#include "comm/execution.hpp"

#include <algorithm>
#include <utility>

#include "comm/reduce/reduce.hpp"
#include "floodtide/base/memory.hpp"

namespace floodtide::comm {
namespace {

bool overlap(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

Range part_of(const Range& range, std::int64_t part, std::int64_t segment) {
  const std::int64_t begin = std::min(range.begin + part * segment, range.end);
  return {begin, std::min(begin + segment, range.end)};
}

/// Return the number of messages for a range. An empty range takes one empty message.
std::int64_t parts(int peer, const Range& range, std::int64_t segment) {
  return peer == kNobody ? 0 : std::max<std::int64_t>(1, (range.size() + segment - 1) / segment);
}

std::int64_t parts(const MessageStep& step, std::int64_t segment) {
  const std::int64_t rounded = (step.sent.size() + segment - 1) / segment;  // for a step that only rounds its own values
  return std::max({std::int64_t{1}, parts(step.send_to, step.sent, segment), parts(step.receive_from, step.received, segment),
                   step.keep ? rounded : 0});
}

}  // namespace

Execution::Execution(Communicator& comm, SharedSchedule schedule, const Payload& payload, std::int64_t segment, int tag,
                     std::span<std::byte> scratch, NextStage next)
    : comm_(comm),
      schedule_(std::move(schedule)),
      payload_(payload),
      segment_(segment),
      tag_(tag),
      scratch_(scratch),
      slot_bytes_(scratch.size() / (payload.wire == Wire::bf16 ? 2 * kWindow : kWindow) / kAlignment * kAlignment),
      next_(std::move(next)) {}

std::int64_t Execution::segment_elements(const Payload& payload, std::size_t segment_bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 40U;  // longer than any array; sums with this number do not overflow
  return static_cast<std::int64_t>(std::clamp<std::size_t>(segment_bytes / payload.wire_bytes(), 1, kMost));
}

std::size_t Execution::scratch_bytes(const MessageSchedule& schedule, const Payload& payload, std::int64_t segment) {
  const bool narrow = payload.wire != Wire::native;
  std::int64_t longest = 0;
  for (const MessageStep& step : schedule.steps) {
    if (step.reduce || narrow) longest = std::max(longest, step.received.size());
    if (narrow) longest = std::max(longest, step.sent.size());
  }
  const std::size_t bytes = static_cast<std::size_t>(std::min(longest, segment)) * payload.wire_bytes();
  return (bytes + kAlignment - 1) / kAlignment * kAlignment * (narrow ? 2 * kWindow : kWindow);
}

std::span<std::byte> Execution::slot(std::size_t index, const Range& range) {
  return scratch_.subspan(index * slot_bytes_, static_cast<std::size_t>(range.size()) * payload_.wire_bytes());
}

std::span<std::byte> Execution::landing(std::int64_t number, const Range& range) {
  return slot(static_cast<std::size_t>(number) % kWindow, range);
}

std::span<std::byte> Execution::values(const Range& range) const {
  return {payload_.data + static_cast<std::size_t>(range.begin) * payload_.element_bytes,
          static_cast<std::size_t>(range.size()) * payload_.element_bytes};
}

std::span<const std::byte> Execution::sent_values(const Range& range) const {
  if (payload_.source == nullptr) return values(range);
  return {payload_.source + static_cast<std::size_t>(range.begin) * payload_.element_bytes,
          static_cast<std::size_t>(range.size()) * payload_.element_bytes};
}

std::span<float> Execution::floats(const Range& range) const {
  return {reinterpret_cast<float*>(payload_.data) + range.begin, static_cast<std::size_t>(range.size())};
}

bool Execution::advance() {
  bool moved = advance_stage();
  while (stage_done() && next_) {
    Stage stage = std::exchange(next_, {})();
    schedule_ = std::move(stage.schedule);
    payload_ = stage.payload;
    segment_ = stage.segment;
    next_step_ = 0;
    next_part_ = 0;
    advance_stage();
    moved = true;
  }
  return moved;
}

bool Execution::advance_stage() {
  bool moved = false;
  for (bool again = true; again;) {
    again = fill();
    // Sends and receives are posted in order, because messages between two ranks match in the order of the calls.
    for (bool going = true; going && next_sent_ < tail_;) again = (going = depart()) || again;
    for (bool going = true; going && next_expected_ < tail_;) again = (going = expect()) || again;
    again = take() || again;
    moved = moved || again;
  }
  if (head_ == tail_ && all_planned()) {
    for (Departure& departure : departures_) moved = (departure.request && has_left(departure)) || moved;
  }
  return moved;
}

bool Execution::fill() {
  bool moved = false;
  while (!all_planned() && tail_ - head_ < static_cast<std::int64_t>(kWindow)) {
    const MessageStep& step = schedule_->steps[next_step_];
    Segment& next = segment(tail_);
    next.step = step;
    next.step_number = next_step_;
    next.step.sent = part_of(step.sent, next_part_, segment_);
    next.step.received = part_of(step.received, next_part_, segment_);
    if (next_part_ >= parts(step.send_to, step.sent, segment_)) next.step.send_to = kNobody;
    if (next_part_ >= parts(step.receive_from, step.received, segment_)) next.step.receive_from = kNobody;
    if (++next_part_ == parts(step, segment_)) {
      next_part_ = 0;
      ++next_step_;
    }
    ++tail_;
    moved = true;
  }
  return moved;
}

/// True if no segment before `number` still has to write to the range or, with also_sent, to send from it.
bool Execution::untouched_before(std::int64_t number, const Range& range, bool also_sent) {
  if (payload_.source != nullptr) return true;
  for (std::int64_t earlier = head_; earlier < number; ++earlier) {
    const Segment& other = segment(earlier);
    if (other.step.receive_from != kNobody && overlap(other.step.received, range)) return false;
    if (also_sent && earlier >= next_sent_ && overlap(other.step.sent, range)) return false;
  }
  return true;
}

bool Execution::has_left(Departure& departure) {
  if (departure.request && departure.request->test()) {
    departure.request.reset();
    --departing_;
  }
  return !departure.request;
}

/// True if no message is still being sent from the range. With a narrow wire format, messages are copies.
bool Execution::is_free(const Range& range) {
  if (narrow() || payload_.source != nullptr) return true;
  return std::ranges::all_of(departures_, [&](Departure& departure) {
    return !departure.request || !overlap(departure.range, range) || has_left(departure);
  });
}

/// Sends the next segment, if its elements are ready. Returns false if it has to wait.
bool Execution::depart() {
  const std::int64_t number = next_sent_;
  const MessageStep& step = segment(number).step;
  const bool rounds = narrow() && step.keep && step.sent.size() > 0;
  if (step.send_to != kNobody || rounds) {
    Departure& departure = departures_[static_cast<std::size_t>(number) % kWindow];
    // An empty message is a signal that all earlier segments have taken effect.
    if (step.sent.empty() && number != head_) return false;
    if (!untouched_before(number, step.sent, rounds) || !has_left(departure)) return false;
    std::span<const std::byte> message = sent_values(step.sent);
    if (narrow()) {
      const std::span<std::byte> staging = slot(kWindow + static_cast<std::size_t>(number) % kWindow, step.sent);
      auto* const words = reinterpret_cast<std::uint16_t*>(staging.data());
      if (step.keep) {
        encode_bf16_and_round(floats(step.sent), words);
      } else {
        encode_bf16(floats(step.sent), words);
      }
      message = staging;
    }
    if (step.send_to != kNobody) {
      departure.range = step.sent;
      departure.request = comm_.send(step.send_to, tag_, message);
      ++departing_;
    }
  }
  ++next_sent_;
  return true;
}

/// Posts the receive of the next segment, if its memory is free. Returns false if it has to wait.
bool Execution::expect() {
  const std::int64_t number = next_expected_;
  Segment& next = segment(number);
  const MessageStep& step = next.step;
  if (step.receive_from != kNobody) {
    const bool in_place = lands_in_place(step);
    if (in_place && !(untouched_before(number, step.received, true) && is_free(step.received))) return false;
    next.arrival = comm_.receive(step.receive_from, tag_, in_place ? values(step.received) : landing(number, step.received));
  }
  ++next_expected_;
  return true;
}

/// Applies the message of the first segment of the window, and moves the window forward. Returns false if it has to wait.
bool Execution::take() {
  if (head_ == tail_ || next_sent_ == head_ || next_expected_ == head_) return false;
  Segment& first = segment(head_);
  if (first.step.receive_from != kNobody) {
    if (first.arrival && first.arrival->test()) first.arrival.reset();
    if (first.arrival) return false;
    if (!lands_in_place(first.step)) {
      if (!is_free(first.step.received)) return false;
      apply(first.step, landing(head_, first.step.received));
    }
  }
  ++head_;
  return true;
}

void Execution::apply(const MessageStep& step, std::span<const std::byte> arrived) {
  if (narrow()) {
    const auto* const words = reinterpret_cast<const std::uint16_t*>(arrived.data());
    if (step.reduce) {
      reduce_bf16_into(floats(step.received), words, payload_.op, step.arriving_first);
    } else {
      decode_bf16(words, floats(step.received));
    }
    return;
  }
  const ReduceBuffer part{values(step.received).data(), step.received.size(), payload_.type};
  reduce_into(part, arrived.data(), payload_.op, step.arriving_first);
}

std::string Execution::position() const {
  if (head_ == tail_) return str_cat("all ", schedule_->steps.size(), " steps done");
  const Segment& first = window_[static_cast<std::size_t>(head_) % kWindow];
  const int peer = first.arrival ? first.step.receive_from : first.step.send_to;
  return str_cat("step ", first.step_number + 1, " of ", schedule_->steps.size(), ", waiting for rank ", peer);
}

}  // namespace floodtide::comm
