// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/reducer.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "comm/backoff.hpp"
#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::comm {
namespace {

// After the backward pass, the caller waits only a few milliseconds for the last bucket. Sleeping would make this wait about a
// tenth longer, so the caller yields during the first 5 ms.
constexpr std::chrono::microseconds kPatience{5000};

constexpr std::int64_t kFloatBytes = sizeof(float);

/// One bucket and its state.
struct Slot {
  Range range;
  std::vector<std::size_t> parts;
  Wire wire = Wire::native;
  std::string_view algorithm;   // name of a row
  std::size_t waiting_for = 0;  // number of parts that are not ready
  Operation operation;
  bool under_way = false;
  std::uint64_t event = 0;
};

/// Return the buckets of an array. Parts that the wire must not round have a separate bucket, which is the last one.
std::vector<Slot> make_slots(const std::vector<Range>& parts, const ReducerOptions& options) {
  const std::size_t exact = options.wire == Wire::native ? 0 : options.exact_parts;
  std::vector<Slot> slots;
  const auto add = [&](std::vector<std::size_t> bucket, Wire wire) {
    Slot& slot = slots.emplace_back();
    slot.range = {parts[bucket.front()].begin, parts[bucket.back()].end};
    slot.parts = std::move(bucket);
    slot.wire = wire;
    slot.algorithm = chosen_row(options.algorithm, wire, slot.range.size()).name;
  };
  for (std::vector<std::size_t>& bucket : cut_buckets(std::span(parts).subspan(exact), options.bucket_bytes)) {
    for (std::size_t& part : bucket) part += exact;
    add(std::move(bucket), options.wire);
  }
  if (exact > 0) {
    std::vector<std::size_t> first(exact);
    std::iota(first.begin(), first.end(), 0U);
    add(std::move(first), Wire::native);
  }
  return slots;
}

void check(std::span<float> values, const std::vector<Range>& parts, const ReducerOptions& options) {
  FLOODTIDE_REQUIRE(options.exact_parts <= parts.size(), invalid_argument, "reducer: ", options.exact_parts,
                    " exact parts, expected at most the ", parts.size(), " parts");
  std::int64_t end = 0;
  for (const Range& part : parts) {
    FLOODTIDE_REQUIRE(part.begin == end && part.end >= part.begin, invalid_argument, "reducer: a part is ", part.begin, " to ",
                      part.end, ", expected it to begin at ", end);
    end = part.end;
  }
  FLOODTIDE_REQUIRE(end == std::ssize(values), invalid_argument, "reducer: the parts end at ", end, ", expected ",
                    values.size());
}

}  // namespace

std::vector<std::vector<std::size_t>> cut_buckets(std::span<const Range> parts, std::int64_t bucket_bytes) {
  FLOODTIDE_REQUIRE(bucket_bytes >= kFloatBytes, invalid_argument, "reducer: buckets of ", bucket_bytes,
                    " bytes, expected at least ", kFloatBytes);
  std::vector<std::vector<std::size_t>> buckets;
  std::int64_t bytes = 0;  // of the bucket in progress
  for (std::size_t part = parts.size(); part > 0; --part) {
    if (buckets.empty() || bytes >= bucket_bytes) {
      buckets.emplace_back();
      bytes = 0;
    }
    bytes += parts[part - 1].size() * kFloatBytes;
    buckets.back().insert(buckets.back().begin(), part - 1);
  }
  return buckets;
}

struct Reducer::Impl {
  Communicator& comm;
  std::span<float> values;
  ReducerOptions options;
  Timeline* timeline;
  std::vector<Slot> slots;             // from the end of the array
  std::vector<std::size_t> slot_of;    // slot of each part
  std::vector<std::size_t> order;      // order in which slots are sent
  std::vector<std::size_t> completed;  // slots of this step, in the order in which they became ready
  bool ordered = false;                // true after the first step
  BucketHook hook;
  std::int64_t step = -1;
  std::size_t sent = 0;  // number of slots of `order` that were sent
  double exposed_s = 0;

  std::mutex mutex;  // guards all members below, and the operations
  std::condition_variable changed;
  std::size_t under_way = 0;
  std::exception_ptr failure;
  bool over = false;
  std::thread driver;

  Impl(Communicator& ranks, std::span<float> array, const std::vector<Range>& parts, const ReducerOptions& given,
       Timeline* events)
      : comm(ranks),
        values(array),
        options(given),
        timeline(events),
        slots(make_slots(parts, given)),
        slot_of(parts.size()),
        order(slots.size()) {
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      for (const std::size_t part : slots[slot].parts) slot_of[part] = slot;
    }
    std::iota(order.begin(), order.end(), 0U);
    completed.reserve(slots.size());
  }

  [[nodiscard]] std::span<float> values_of(const Slot& slot) const {
    return values.subspan(static_cast<std::size_t>(slot.range.begin), static_cast<std::size_t>(slot.range.size()));
  }

  // Starts the next slots of `order`, as long as their parts are ready.
  void send() {
    for (; sent < order.size() && slots[order[sent]].waiting_for == 0; ++sent) {
      Slot& slot = slots[order[sent]];
      const std::span<float> part = values_of(slot);
      if (part.empty()) continue;
      const Timeline::Event event{"allreduce", "communication", step, static_cast<std::int64_t>(sent),
                                  static_cast<std::int64_t>(part.size_bytes())};
      if (hook) {
        const ScopedEvent scope(timeline, event);
        hook({sent, part, slot.parts, sent + 1 == order.size()});
        continue;
      }
      if (timeline != nullptr) slot.event = timeline->begin(event);
      Operation operation = start_allreduce(comm, ReduceBuffer::of(part), ReduceOp::sum, {slot.algorithm, slot.wire});
      {
        const std::lock_guard lock(mutex);
        slot.operation = std::move(operation);
        slot.under_way = true;
        ++under_way;
      }
      changed.notify_all();
    }
  }

  // Tests all operations in flight once. Returns true if an operation has completed. The caller holds the mutex.
  bool look() {
    bool moved = false;
    for (Slot& slot : slots) {
      if (!slot.under_way || !slot.operation.test()) continue;
      slot.under_way = false;
      --under_way;
      moved = true;
      if (timeline != nullptr) timeline->end(slot.event);
    }
    return moved;
  }

  void drive() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return over || (under_way > 0 && !failure); });
      if (over) return;
      const std::function<void()> nothing;
      Backoff backoff(nothing);
      try {
        while (!over && under_way > 0) {
          if (look()) backoff.reset();
          lock.unlock();  // so that finish() can call look(), too
          backoff.pause();
          lock.lock();
        }
      } catch (...) {
        failure = std::current_exception();
      }
      changed.notify_all();
    }
  }

  void wait() {
    const ScopedTimer timer(exposed_s);
    Backoff backoff(comm.on_wait(), kPatience);
    while (true) {
      {
        const std::lock_guard lock(mutex);
        if (failure) std::rethrow_exception(failure);
        if (look()) backoff.reset();
        if (under_way == 0) return;
      }
      backoff.pause();
    }
  }

  // From now on, all ranks use the order in which the slots became ready on rank 0. Collective.
  void agree_on_order() {
    std::vector<std::int64_t> numbers(completed.begin(), completed.end());
    broadcast(comm, std::as_writable_bytes(std::span(numbers)), 0);
    order.assign(numbers.begin(), numbers.end());
    ordered = true;
  }
};

Reducer::Reducer(Communicator& comm, std::span<float> values, std::vector<Range> parts, const ReducerOptions& options,
                 Timeline* timeline) {
  check(values, parts, options);
  impl_ = std::make_unique<Impl>(comm, values, parts, options, timeline);
  if (comm.size() == 1) return;  // with one rank, operations are done at once
  impl_->driver = std::thread([impl = impl_.get()] { impl->drive(); });
}

Reducer::~Reducer() {
  if (!impl_->driver.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->over = true;
  }
  impl_->changed.notify_all();
  impl_->driver.join();
  if (!impl_->failure && impl_->under_way == 0) return;
  // After a disagreement about one bucket, or an interrupted step, other ranks may never start the other buckets. Do not wait
  // for them.
  for (Slot& slot : impl_->slots) slot.operation.abandon();
}

void Reducer::set_hook(BucketHook hook) { impl_->hook = std::move(hook); }

void Reducer::begin(std::int64_t step) {
  Impl& r = *impl_;
  r.step = step;
  r.sent = 0;
  r.completed.clear();
  for (Slot& slot : r.slots) slot.waiting_for = slot.parts.size();
}

void Reducer::ready(std::size_t part) {
  Impl& r = *impl_;
  const std::size_t number = r.slot_of[part];
  FLOODTIDE_ASSERT(r.slots[number].waiting_for > 0);
  if (--r.slots[number].waiting_for > 0) return;
  r.completed.push_back(number);
  r.send();
}

void Reducer::finish() {
  Impl& r = *impl_;
  for (std::size_t number = 0; number < r.slots.size(); ++number) {
    if (r.slots[number].waiting_for == 0) continue;
    r.slots[number].waiting_for = 0;
    r.completed.push_back(number);
  }
  r.send();
  r.wait();
  if (!r.ordered) r.agree_on_order();
}

std::size_t Reducer::buckets() const noexcept { return impl_->slots.size(); }

double Reducer::take_exposed_s() { return std::exchange(impl_->exposed_s, 0.0); }

}  // namespace floodtide::comm
