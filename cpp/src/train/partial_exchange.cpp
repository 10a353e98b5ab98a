// SPDX-License-Identifier: Apache-2.0
// An update has three parts. A rank with gradients sends `Ready` to rank 0. When enough ranks are ready, rank 0 broadcasts
// which ranks contribute (the close). Then the threads of all ranks sum the gradients. With Late::drop, gradients of older
// parameters are not used. Rank 0 and the owner of the gradients both know this from the step of the parameters.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "floodtide/base/memory.hpp"
#include "floodtide/comm/collectives.hpp"
#include "train/exchange.hpp"

namespace floodtide::train {
namespace {

constexpr int kReadyTag = 1;
constexpr std::chrono::milliseconds kSignalPeriod{50};
constexpr std::chrono::microseconds kShortestPause{50}, kLongestPause{1000};

/// Thrown on the thread of the exchange when the exchange ends.
struct Over {};

/// Message of a rank whose gradients are ready.
struct Ready {
  std::int64_t base = 0;     // step of the parameters of these gradients
  std::int64_t meeting = 0;  // number of meetings before; messages from before the last meeting are ignored
  std::int64_t failed = 0;   // 1: this rank has failed
};

class PartialExchange final : public GradientExchange {
 public:
  PartialExchange(comm::Communicator& comm, Updates& updates, const ExchangeOptions& options)
      : on_wait_(comm.on_wait()),
        comm_(comm.split(0, comm.rank())),
        updates_(updates),
        options_(options),
        message_(static_cast<std::int64_t>(options.length)),
        in_(static_cast<std::size_t>(comm.size())),
        peers_(static_cast<std::size_t>(comm.size())),
        pending_(static_cast<std::int64_t>(options.length)) {
    comm_->set_on_wait([this] {
      if (over_) throw Over();
    });
    thread_ = std::thread([this] { run(); });
  }

  // Does not wait for other ranks. The thread leaves a collective that other ranks may never start.
  ~PartialExchange() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void resume(std::int64_t step) override {
    const std::lock_guard lock(mutex_);
    step_ = step;
    ++meetings_;
    meeting_ = false;
    announced_ = false;
    changed_.notify_all();
  }

  ExchangeReport give(std::span<const float> message, std::int64_t base_step, std::span<float> out_parameters) override {
    std::unique_lock lock(mutex_);
    wait(lock, [this] { return !waiting_ || meeting_; });  // gradients from before the last meeting may still be pending
    ExchangeReport report;
    const bool stale = options_.late == Late::drop && base_step < step_;
    if (waiting_ || (stale && message[kFailed] == 0)) {
      report.used = false;
    } else {
      std::ranges::copy(message, pending_.span().begin());
      pending_base_ = base_step;
      waiting_ = true;
      announced_ = false;
      changed_.notify_all();
      wait(lock, [this] { return !waiting_ || meeting_; });
      report.used = waiting_ ? options_.late == Late::carry : used_;
      if (waiting_ && options_.late == Late::drop) waiting_ = false;
    }
    report.step = step_;
    report.staleness = std::max<std::int64_t>(0, step_ - 1 - base_step);
    report.meet = meeting_;
    if (meeting_) {
      report.failed = failed_;
      report.requests = requests_;
    }
    std::ranges::copy(updates_.parameters(), out_parameters.begin());
    return report;
  }

 private:
  /// State of a rank on rank 0.
  struct Peer {
    Ready incoming;
    std::unique_ptr<comm::Request> request;
    std::optional<Ready> ready;
  };

  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    while (true) {
      if (failure_) std::rethrow_exception(failure_);
      if (condition()) return;
      if (changed_.wait_for(lock, kSignalPeriod) == std::cv_status::timeout && on_wait_) {
        lock.unlock();
        on_wait_();
        lock.lock();
      }
    }
  }

  void run() {
    try {
      while (true) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return over_ || (step_ >= 0 && !meeting_); });
          if (over_) return;
        }
        if (!collect()) return;
        update();
      }
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
      }
      changed_.notify_all();
    }
  }

  // Waits until it is known which ranks contribute to the next update. Returns false if the exchange has ended.
  bool collect() {
    const bool decides = comm_->rank() == 0;
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(in_));
    std::optional<comm::Operation> close;
    if (!decides) close = comm::start_broadcast(*comm_, bytes, 0);
    std::chrono::microseconds pause = kShortestPause;
    while (true) {
      {
        std::unique_lock lock(mutex_);
        // New gradients of this rank end the pause. Messages of other ranks are tested after it.
        changed_.wait_for(lock, pause, [this] { return over_ || (waiting_ && !announced_); });
        if (over_) {
          if (close) close->abandon();  // rank 0 will not close another update
          return false;
        }
        pause = std::min(pause + pause / 4, kLongestPause);
        if (waiting_ && !announced_) {
          announce();
          pause = kShortestPause;  // other ranks will probably be ready soon
        }
      }
      if (decides && enough()) {
        comm::broadcast(*comm_, bytes, 0);
        return true;
      }
      if (close && close->test()) return true;
    }
  }

  // Tells rank 0 that gradients are pending. The caller holds the mutex.
  void announce() {
    const Ready ready{pending_base_, meetings_, pending_.data()[kFailed] > 0 ? 1 : 0};
    if (comm_->rank() == 0) {
      peers_[0].ready = ready;
    } else {
      if (told_) told_->wait();  // does not block: rank 0 has received the last message, because it has closed an update since
      telling_ = ready;
      told_ = comm_->send(0, kReadyTag, std::as_bytes(std::span(&telling_, 1)));
    }
    announced_ = true;
  }

  // On rank 0: returns true if the update can be closed, and sets `in_` to the ranks that contribute.
  bool enough() {
    const std::lock_guard lock(mutex_);
    int count = 0;
    bool failed = false;
    for (int rank = 0; rank < comm_->size(); ++rank) {
      Peer& peer = peers_[static_cast<std::size_t>(rank)];
      if (rank > 0) listen(peer, rank);
      if (peer.ready && !counts(*peer.ready)) peer.ready.reset();
      in_[static_cast<std::size_t>(rank)] = peer.ready ? 1 : 0;
      if (!peer.ready) continue;
      ++count;
      failed = failed || peer.ready->failed != 0;
    }
    if (count < options_.contributors && !failed) return false;
    for (Peer& peer : peers_) peer.ready.reset();
    return true;
  }

  void listen(Peer& peer, int rank) {
    while (true) {
      if (!peer.request) peer.request = comm_->receive(rank, kReadyTag, std::as_writable_bytes(std::span(&peer.incoming, 1)));
      if (!peer.request->test()) return;
      peer.request.reset();
      peer.ready = peer.incoming;
    }
  }

  [[nodiscard]] bool counts(const Ready& ready) const {
    if (ready.meeting != meetings_) return false;
    return ready.failed != 0 || options_.late == Late::carry || ready.base == step_;
  }

  void update() {
    const bool in = in_[static_cast<std::size_t>(comm_->rank())] != 0;
    {
      const std::lock_guard lock(mutex_);
      if (in) {
        std::ranges::copy(pending_.span(), message_.span().begin());
      } else {
        std::ranges::fill(message_.span(), 0.0F);
      }
    }
    comm::allreduce(*comm_, message_.span(), comm::ReduceOp::sum, options_.algorithm);
    const std::lock_guard lock(mutex_);
    failed_ = message_.data()[kFailed] > 0;
    requests_ = requests_of(message_.span());
    if (!failed_ && message_.data()[kExamples] > 0) {
      updates_.update(message_.span(), step_);
      ++step_;
    } else {
      requests_ |= kStop;  // a rank has failed, or the contributing ranks have no more examples
    }
    if (in || (options_.late == Late::drop && waiting_ && pending_base_ < step_)) {
      used_ = in;
      waiting_ = false;
    }
    meeting_ = failed_ || requests_ != kNone || updates_.meet_after(step_);
    changed_.notify_all();
  }

  std::function<void()> on_wait_;
  std::unique_ptr<comm::Communicator> comm_;  // used by the thread only
  Updates& updates_;
  ExchangeOptions options_;
  AlignedBuffer<float> message_;
  std::vector<std::uint8_t> in_;  // for each rank: 1 if it contributes to the update
  std::vector<Peer> peers_;       // on rank 0
  Ready telling_;
  std::unique_ptr<comm::Request> told_;

  std::mutex mutex_;  // guards all members below, and the updates
  std::condition_variable changed_;
  AlignedBuffer<float> pending_;
  std::int64_t pending_base_ = 0;
  bool waiting_ = false;    // true: `pending_` holds gradients
  bool announced_ = false;  // true: rank 0 was told of them
  bool used_ = false;       // true: the last gradients were used in an update
  std::int64_t step_ = -1;  // number of updates so far; -1 before the first resume()
  std::int64_t meetings_ = 0;
  bool meeting_ = false;
  bool failed_ = false;
  std::uint32_t requests_ = 0;
  std::exception_ptr failure_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_partial_exchange(comm::Communicator& comm, Updates& updates,
                                                        const ExchangeOptions& options) {
  return std::make_unique<PartialExchange>(comm, updates, options);
}

}  // namespace floodtide::train
