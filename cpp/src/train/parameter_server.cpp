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
#include "floodtide/comm/collectives.hpp"
#include "train/exchange.hpp"

namespace floodtide::train {
namespace {

constexpr int kGradientsTag = 1;
constexpr int kHeaderTag = 2;
constexpr int kParametersTag = 3;
constexpr std::chrono::milliseconds kSignalPeriod{50};
constexpr std::chrono::microseconds kShortestPause{50}, kLongestPause{1000};

/// Header that the server sends before the parameters. A client uses the same struct to send the step of its parameters.
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

/// Exchange on all ranks except rank 0: sends gradients, and waits for the newest parameters.
class Client final : public GradientExchange {
 public:
  explicit Client(comm::Communicator& comm) : comm_(comm.split(0, comm.rank())) { comm_->set_on_wait(comm.on_wait()); }

  void resume(std::int64_t) override {}

  ExchangeReport give(std::span<const float> message, std::int64_t base_step, std::span<float> out_parameters) override {
    try {
      return exchanged(message, base_step, out_parameters);
    } catch (...) {
      comm_->spoil();  // the server may not have received the message
      throw;
    }
  }

 private:
  ExchangeReport exchanged(std::span<const float> message, std::int64_t base_step, std::span<float> out_parameters) {
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

  std::unique_ptr<comm::Communicator> comm_;
};

/// Exchange on rank 0: a thread serves all ranks in turn, including the caller on rank 0.
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

  // Does not wait for other ranks. They need no answer any more, unless this rank has left the training by an exception.
  ~Server() override {
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
    while (own.here || (own.met && !all_met())) {  // at a meeting, until all ranks know of it
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
    std::unique_ptr<comm::Request> header, gradients;  // receives
    std::unique_ptr<comm::Request> answer_header, answer_parameters;
    AnswerHeader asked, answer;
    std::vector<float> parameters;  // parameters that are being sent
    bool here = false;              // for rank 0: true if its message is ready
    bool met = false;               // true: the rank was told to meet

    [[nodiscard]] bool has_answer() const { return !answer_header && !answer_parameters; }
  };

  void run() {
    try {
      std::chrono::microseconds pause = kShortestPause;
      while (true) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return over_ || (step_ >= 0 && !all_met()); });
          if (over_) return;
        }
        bool served = false;
        for (Peer& peer : peers_) served = serve(peer) || served;
        pause = served ? kShortestPause : std::min(2 * pause, kLongestPause);
        if (!served) std::this_thread::sleep_for(pause);
      }
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        failure_ = here_only(std::current_exception());
      }
      changed_.notify_all();
    }
  }

  // Updates throw an AgreedError, because in other modes all ranks make them. Only this rank knows of this one.
  static std::exception_ptr here_only(std::exception_ptr failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const comm::AgreedError& error) {
      return std::make_exception_ptr(Error(error.code(), error.what()));
    } catch (...) {
      return failure;
    }
  }

  // True if all ranks have received the answer that tells them to meet.
  [[nodiscard]] bool all_met() const {
    return meeting_ && std::ranges::all_of(peers_, [](const Peer& peer) { return peer.met && peer.has_answer(); });
  }

  // Serves one rank. Returns true if its gradients had arrived.
  bool serve(Peer& peer) {
    const std::lock_guard lock(mutex_);
    if (!finish_answer(peer) || peer.met || !arrived(peer)) return false;
    peer.answer = {};
    apply(peer);
    peer.answer.step = step_;
    peer.answer.meet = meeting_;
    peer.answer.failed = failed_ ? 1 : 0;
    peer.answer.requests = requests_;
    const std::span<const float> newest = updates_.parameters();
    peer.parameters.assign(newest.begin(), newest.end());
    if (peer.rank == 0) {
      peer.here = false;
      changed_.notify_all();
    } else {
      peer.answer_header = comm_->send(peer.rank, kHeaderTag, std::as_bytes(std::span(&peer.answer, 1)));
      peer.answer_parameters = comm_->send(peer.rank, kParametersTag, std::as_bytes(std::span(peer.parameters)));
    }
    peer.met = meeting_;  // last, because sending may fail
    return true;
  }

  // True if the rank has received the last answer.
  bool finish_answer(Peer& peer) {
    if (peer.has_answer()) return true;
    if (!peer.answer_header->test() || !peer.answer_parameters->test()) return false;
    peer.answer_header.reset();
    peer.answer_parameters.reset();
    if (all_met()) changed_.notify_all();
    return true;
  }

  bool arrived(Peer& peer) {
    if (peer.rank == 0) return peer.here;
    if (!peer.header) {
      peer.header = comm_->receive(peer.rank, kHeaderTag, std::as_writable_bytes(std::span(&peer.asked, 1)));
      peer.gradients = comm_->receive(peer.rank, kGradientsTag, std::as_writable_bytes(peer.message.span()));
    }
    if (!peer.header->test() || !peer.gradients->test()) return false;
    peer.header.reset();
    peer.gradients.reset();
    return true;
  }

  // Applies the gradients of one rank, except when all ranks are to meet: all ranks then get the same parameters and answer.
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
      requests_ |= kStop;  // this rank has failed, or has no more examples
    }
    meeting_ = failed_ || requests_ != kNone || updates_.meet_after(step_);
  }

  std::function<void()> on_wait_;
  std::unique_ptr<comm::Communicator> comm_;  // used by the thread only
  Updates& updates_;

  std::mutex mutex_;  // guards all members below, and the updates
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::int64_t step_ = -1;  // number of updates so far; -1 before the first resume()
  bool meeting_ = false;
  bool failed_ = false;
  std::uint32_t requests_ = kNone;
  std::exception_ptr failure_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_parameter_server(comm::Communicator& comm, Updates& updates,
                                                        const ExchangeOptions& options) {
  if (comm.rank() == 0) return std::make_unique<Server>(comm, updates, options);
  return std::make_unique<Client>(comm);
}

}  // namespace floodtide::train
