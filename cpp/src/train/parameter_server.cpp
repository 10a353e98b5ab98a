// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "floodtide/base/error.hpp"
#include "floodtide/base/memory.hpp"
#include "train/exchange.hpp"

namespace floodtide::train {
namespace {

constexpr int kGradientsTag = 1;
constexpr int kHeaderTag = 2;
constexpr int kParametersTag = 3;
constexpr std::chrono::milliseconds kSignalPeriod{50};
constexpr std::chrono::microseconds kShortestPause{50}, kLongestPause{1000};

/// What the server answers before the parameters. The base step of gradients travels the other way in the same form.
struct AnswerHeader {
  std::int64_t step = 0;
  std::int64_t used = 0;
  std::int64_t staleness = 0;
  std::int64_t meet = 0;
  std::int64_t failed = 0;
  std::int64_t requests = 0;
};

ExchangeReport report_of(const AnswerHeader& header) {
  return {header.step,      header.used != 0,   header.staleness,
          header.meet != 0, header.failed != 0, static_cast<std::uint32_t>(header.requests)};
}

/// Of a rank that is not rank 0: asks and waits.
class Client final : public GradientExchange {
 public:
  explicit Client(comm::Communicator& comm) : comm_(comm.split(0, comm.rank())) { comm_->set_on_wait(comm.on_wait()); }

  void resume(std::int64_t) override {}

  ExchangeReport give(std::span<const float> message, std::int64_t base_step, std::span<float> out_parameters) override {
    const AnswerHeader asked{.step = base_step};
    const auto header_sent = comm_->send(0, kHeaderTag, std::as_bytes(std::span(&asked, 1)));
    const auto sent = comm_->send(0, kGradientsTag, std::as_bytes(message));
    AnswerHeader answer;
    comm_->receive(0, kHeaderTag, std::as_writable_bytes(std::span(&answer, 1)))->wait();
    comm_->receive(0, kParametersTag, std::as_writable_bytes(out_parameters))->wait();
    header_sent->wait();
    sent->wait();
    return report_of(answer);
  }

 private:
  std::unique_ptr<comm::Communicator> comm_;
};

/// Of rank 0: a thread that serves the others, and this rank's own caller in turn with them.
class Server final : public GradientExchange {
 public:
  Server(comm::Communicator& comm, Updates& updates, const ExchangeOptions& options)
      : on_wait_(comm.on_wait()), comm_(comm.split(0, comm.rank())), updates_(updates) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      peers_.emplace_back();
      peers_.back().rank = rank;
      peers_.back().message = AlignedBuffer<float>(static_cast<std::int64_t>(options.length));
    }
    thread_ = std::thread([this] { run(); });
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  Server(Server&&) = delete;
  Server& operator=(Server&&) = delete;

  // Ranks that have yet to hear of the last meeting are told first, unless the job is falling apart.
  ~Server() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      abandoned_ = std::uncaught_exceptions() > 0;
    }
    changed_.notify_all();
    thread_.join();
  }

  void resume(std::int64_t step) override {
    const std::lock_guard lock(mutex_);
    step_ = step;
    meeting_ = failed_ = false;
    requests_ = kNone;
    for (Peer& peer : peers_) peer.met = false;
    changed_.notify_all();
  }

  ExchangeReport give(std::span<const float> message, std::int64_t base_step, std::span<float> out_parameters) override {
    std::unique_lock lock(mutex_);
    Peer& own = peers_[0];
    std::ranges::copy(message, own.message.span().begin());
    own.asked = {.step = base_step};
    own.here = true;
    changed_.notify_all();
    while (own.here) {
      if (failure_) std::rethrow_exception(failure_);
      if (changed_.wait_for(lock, kSignalPeriod) == std::cv_status::timeout && on_wait_) {
        lock.unlock();
        on_wait_();
        lock.lock();
      }
    }
    std::ranges::copy(own.parameters, out_parameters.begin());
    return report_of(own.answer);
  }

 private:
  struct Peer {
    int rank = 0;
    AlignedBuffer<float> message;
    std::unique_ptr<comm::Request> header, gradients;  // on their way here
    std::unique_ptr<comm::Request> answer_header, answer_parameters;
    AnswerHeader asked, answer;
    std::vector<float> parameters;  // on their way back: those of the answer's step
    bool here = false;              // of rank 0's own: a message waits
    bool met = false;               // was told to meet
  };

  void run() {
    try {
      std::chrono::microseconds pause = kShortestPause;
      while (true) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return over_ || (step_ >= 0 && !all_met()); });
          if (over_ && (abandoned_ || !meeting_ || all_met())) return;
        }
        bool served = false;
        for (Peer& peer : peers_) served = serve(peer) || served;
        pause = served ? kShortestPause : std::min(2 * pause, kLongestPause);
        if (!served) std::this_thread::sleep_for(pause);
      }
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
      }
      changed_.notify_all();
    }
  }

  [[nodiscard]] bool all_met() const {
    return meeting_ && std::ranges::all_of(peers_, [](const Peer& peer) { return peer.met; });
  }

  // True if this rank's gradients were there.
  bool serve(Peer& peer) {
    const std::lock_guard lock(mutex_);
    if (peer.met || !arrived(peer)) return false;
    peer.answer = {};
    apply(peer);
    peer.answer.step = step_;
    peer.answer.meet = peer.met = meeting_;
    peer.answer.failed = failed_ ? 1 : 0;
    peer.answer.requests = requests_;
    const std::span<const float> newest = updates_.parameters();
    peer.parameters.assign(newest.begin(), newest.end());
    if (peer.rank == 0) {
      peer.here = false;
      changed_.notify_all();
      return true;
    }
    peer.answer_header = comm_->send(peer.rank, kHeaderTag, std::as_bytes(std::span(&peer.answer, 1)));
    peer.answer_parameters = comm_->send(peer.rank, kParametersTag, std::as_bytes(std::span(peer.parameters)));
    return true;
  }

  bool arrived(Peer& peer) {
    if (peer.rank == 0) return peer.here;
    if (!peer.header) {
      if (peer.answer_header && !(peer.answer_header->test() && peer.answer_parameters->test())) return false;
      peer.header = comm_->receive(peer.rank, kHeaderTag, std::as_writable_bytes(std::span(&peer.asked, 1)));
      peer.gradients = comm_->receive(peer.rank, kGradientsTag, std::as_writable_bytes(peer.message.span()));
    }
    if (!peer.header->test() || !peer.gradients->test()) return false;
    peer.header.reset();
    peer.gradients.reset();
    return true;
  }

  // Once all are to meet nothing changes any more: all ranks leave with the same parameters and the same answer.
  void apply(Peer& peer) {
    if (meeting_) return;
    const std::span<float> message = peer.message.span();
    requests_ = requests_of(message);
    failed_ = message[kFailed] > 0;
    if (!failed_ && message[kExamples] > 0) {
      peer.answer.staleness = step_ - peer.asked.step;
      peer.answer.used = 1;
      updates_.update(message, step_);
      ++step_;
    } else {
      requests_ |= kStop;  // this rank's walkers are through, or it failed
    }
    meeting_ = failed_ || requests_ != kNone || updates_.meet_after(step_);
  }

  std::function<void()> on_wait_;
  std::unique_ptr<comm::Communicator> comm_;  // of the thread
  Updates& updates_;

  std::mutex mutex_;  // guards what follows, and the updates
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::int64_t step_ = -1;  // updates so far; -1 before the first resume
  bool meeting_ = false;
  bool failed_ = false;
  std::uint32_t requests_ = kNone;
  std::exception_ptr failure_;
  bool over_ = false;
  bool abandoned_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_parameter_server(comm::Communicator& comm, Updates& updates,
                                                        const ExchangeOptions& options) {
  if (comm.rank() == 0) return std::make_unique<Server>(comm, updates, options);
  return std::make_unique<Client>(comm);
}

}  // namespace floodtide::train
