// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/delayed.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "comm/backoff.hpp"
#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

/// Simulated network connection of one rank, shared by all its communicators.
class Wire {
 public:
  explicit Wire(const WireDelay& delay) : delay_(delay) {}

  /// Return when a message that is sent now arrives, in nanoseconds of the monotonic clock.
  std::int64_t send(std::size_t bytes) {
    const double takes_s = delay_.bytes_per_s > 0 ? static_cast<double>(bytes) / delay_.bytes_per_s : 0;
    const std::lock_guard lock(mutex_);
    free_ns_ = std::max(free_ns_, now_ns()) + std::llround(takes_s * 1e9);
    return free_ns_ + std::llround(delay_.latency_s * 1e9);
  }

 private:
  WireDelay delay_;
  std::mutex mutex_;
  std::int64_t free_ns_ = 0;
};

class DelayedSend final : public Request {
 public:
  DelayedSend(Communicator& messages, Communicator& times, int to, int tag, std::span<const std::byte> data,
              std::int64_t arrives_ns)
      : arrives_ns_(arrives_ns),
        message_(messages.send(to, tag, data)),
        time_(times.send(to, tag, std::as_bytes(std::span(&arrives_ns_, 1)))) {}

  bool test() override { return message_->test() && time_->test(); }
  void wait() override {
    message_->wait();
    time_->wait();
  }

 private:
  std::int64_t arrives_ns_;
  std::unique_ptr<Request> message_, time_;
};

class DelayedReceive final : public Request {
 public:
  DelayedReceive(Communicator& messages, Communicator& times, int from, int tag, std::span<std::byte> out_data,
                 const std::function<void()>& on_wait)
      : message_(messages.receive(from, tag, out_data)),
        time_(times.receive(from, tag, std::as_writable_bytes(std::span(&arrives_ns_, 1)))),
        on_wait_(on_wait) {}

  bool test() override { return message_->test() && time_->test() && now_ns() >= arrives_ns_; }
  void wait() override {
    Backoff backoff(on_wait_);
    while (!test()) backoff.pause();
  }

 private:
  std::int64_t arrives_ns_ = 0;
  std::unique_ptr<Request> message_, time_;
  const std::function<void()>& on_wait_;
};

class Delayed final : public Communicator {
 public:
  Delayed(Communicator& comm, std::shared_ptr<Wire> wire)
      : Communicator(comm.rank(), comm.size()),
        messages_(comm.split(0, comm.rank())),
        times_(comm.split(0, comm.rank())),
        wire_(std::move(wire)),
        node_(std::to_string(messages_->nodes()[static_cast<std::size_t>(comm.rank())])) {
    set_on_wait(comm.on_wait());
  }

  std::string description() const override { return messages_->description() + " with wire time added"; }
  std::string node_name() const override { return node_; }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const std::unique_ptr<Communicator> part = messages_->split(color, key);
    return std::make_unique<Delayed>(*part, wire_);
  }

  void end_host_within(double seconds) override { messages_->end_host_within(seconds); }
  void abort(int status, std::string_view reason) override { messages_->abort(status, reason); }

 private:
  // A message and its time must be started together. Otherwise messages of another thread could come between the two.
  std::unique_ptr<Request> start_send(int to, int tag, std::span<const std::byte> data) override {
    const std::lock_guard lock(sending_);
    return std::make_unique<DelayedSend>(*messages_, *times_, to, tag, data, wire_->send(data.size()));
  }

  std::unique_ptr<Request> start_receive(int from, int tag, std::span<std::byte> out_data) override {
    const std::lock_guard lock(receiving_);
    return std::make_unique<DelayedReceive>(*messages_, *times_, from, tag, out_data, on_wait());
  }

  std::unique_ptr<Communicator> messages_, times_;
  std::shared_ptr<Wire> wire_;
  std::string node_;  // found in the constructor, because nodes() is a collective
  std::mutex sending_, receiving_;
};

}  // namespace

std::unique_ptr<Communicator> delayed(Communicator& comm, const WireDelay& delay) {
  FLOODTIDE_REQUIRE(delay.latency_s >= 0 && delay.bytes_per_s >= 0, invalid_argument, "delayed: a latency of ", delay.latency_s,
                    " s and ", delay.bytes_per_s, " bytes/s, expected neither below 0");
  return std::make_unique<Delayed>(comm, std::make_shared<Wire>(delay));
}

}  // namespace floodtide::comm
