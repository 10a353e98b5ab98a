// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/watchdog.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "comm/watchdog_judge.hpp"
#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

constexpr int kBeatTag = 1;
constexpr int kEndTag = 2;
constexpr double kBeatsPerLimit = 8;
constexpr double kLongestPeriodS = 2;
constexpr double kLimitsS = 0.25;  // how often a rank checks whether its limit has changed
constexpr double kRecordsS = 0.5;  // time that the other ranks have to write their records
constexpr double kDismissS = 60;   // time that ranks that have left have to receive that watching ends
constexpr double kEndS = 2.25;     // from the decision to end the job until processes on each host are killed
constexpr double kTurnS = 0.75;    // how much longer than rank 1 the other ranks wait before they end the job because of rank 0
// After this rank has left, it only waits for the other ranks, which will probably leave soon.
constexpr double kShortestPauseS = 0.0005, kLongestPauseS = 0.05;

/// Message that ends watching: the reason, cut if necessary. Empty: all ranks have left.
using Reason = std::array<char, 1024>;

/// A rank that this rank watches, and that watches this rank: its state, the next message from it and the last one to it.
struct Peer {
  int place = 0;  // rank in the communicator
  RankState state;
  Beat incoming;
  std::unique_ptr<Request> request;
  Beat outgoing;
  std::unique_ptr<Request> sent;
  bool cut_off = false;  // true: a message from or to this rank has failed; no more messages are exchanged
};

}  // namespace

class Watchdog::Implementation : Immovable {
 public:
  Implementation(Communicator& comm, ActivityLog& log, WatchdogOptions options)
      : comm_(comm.split(0, comm.rank())), log_(log), options_(std::move(options)) {
    if (comm_->rank() == 0) {
      for (int rank = 1; rank < comm_->size(); ++rank) listen_to(rank);
    } else {
      listen_to(0);
    }
    for (int rank = 0; rank < std::min(2, comm_->size()); ++rank) {
      if (rank == comm_->rank()) continue;
      ends_[static_cast<std::size_t>(rank)] =
          comm_->receive(rank, kEndTag, std::as_writable_bytes(std::span(end_reasons_[static_cast<std::size_t>(rank)])));
    }
    thread_ = std::thread([this] { run(); });
  }

  ~Implementation() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void leave() {
    {
      const std::lock_guard lock(mutex_);
      leaves_ = true;
    }
    changed_.notify_all();
  }

  [[nodiscard]] bool over() const { return over_; }

 private:
  void listen_to(int rank) {
    Peer& peer = peers_.emplace_back();
    peer.state.rank = number(rank);
    peer.place = rank;
    peer.state.heard_s = now_s();
  }

  [[nodiscard]] int number(int place) const {
    return options_.numbers.empty() ? place : options_.numbers.at(static_cast<std::size_t>(place));
  }

  void run() {
    try {
      watch();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the ranks' own calls fail too, and report the error
    }
    over_ = true;
  }

  void watch() {
    double pause_s = kShortestPauseS;
    double due_s = now_s();
    while (true) {
      const bool leaves = leaves_;
      // This process was stopped, perhaps together with all others. No rank could be heard in this time, so it does not count.
      if (const double late_s = now_s() - due_s; late_s > 2 * period_s_) {
        for (Peer& peer : peers_) peer.state.heard_s += late_s;
        log_.leave_out(late_s);
      } else if (late_s < kLimitsS) {
        log_.forget_waits_over();
      }
      try {
        if (look(leaves)) return;
      } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the next look tries again what is left to do
      }
      const double wait_s = leaves ? pause_s : std::clamp(next_beat_s_ - now_s(), 0.0, kLimitsS);
      pause_s = leaves ? std::min(2 * pause_s, kLongestPauseS) : kShortestPauseS;
      due_s = now_s() + wait_s;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::duration<double>(wait_s), [&] { return stop_ || leaves_ != leaves; });
      if (stop_) return;
    }
  }

  /// Exchanges messages with the peers, and judges. Returns true if the job does not have to be watched any more.
  bool look(bool leaves) {
    if (leaves && left_s_ == 0) left_s_ = now_s();
    const bool silent = told_leaving_ && comm_->rank() != 0;
    const bool new_limit = period() != period_s_;  // a trainer has started or ended, and the watching rank must know this
    if (!silent && (leaves != told_leaving_ || new_limit || now_s() >= next_beat_s_)) {
      period_s_ = period();
      next_beat_s_ = now_s() + period_s_;
      tell(leaves);
    }
    listen();
    if (told_to_end()) {
      listen();  // receive the last messages of rank 0
      return true;
    }
    return judge();
  }

  [[nodiscard]] double period() const {
    const double limit_s = log_.limit_s();
    return limit_s > 0 ? std::min(limit_s / kBeatsPerLimit, kLongestPeriodS) : kLongestPeriodS;
  }

  /// Runs `work`, unless messages to this peer have failed before.
  ///
  /// If a message fails, the peer counts as silent from then on, and its silence may end the job. This is needed because other
  /// calls of this rank may wait for ever instead of failing. If this rank has left, and may have ended MPI, the error is
  /// rethrown and watching ends.
  template <class Work>
  void attempt(Peer& peer, Work&& work) {
    if (peer.cut_off) return;
    try {
      work();
    } catch (const Error&) {
      if (leaves_) throw;
      peer.cut_off = true;
    }
  }

  [[nodiscard]] Beat own(bool leaves) {
    Beat beat;
    beat.period_s = period_s_;
    beat.leaves = leaves ? 1 : 0;
    beat.activity = log_.now();
    return beat;
  }

  // Sends the activity of this rank to its peers. After a rank has told that it leaves, it sends nothing more, because nobody
  // may receive it. Rank 0 goes on until it dismisses all ranks.
  void tell(bool leaves) {
    bool all_told = true;
    for (Peer& peer : peers_) {
      attempt(peer, [&] {
        if (peer.sent && !peer.sent->test()) {  // the last message has not been received yet
          all_told = false;
          return;
        }
        peer.outgoing = own(leaves);
        peer.sent = comm_->send(peer.place, kBeatTag, std::as_bytes(std::span(&peer.outgoing, 1)));
      });
    }
    if (all_told || comm_->rank() == 0) told_leaving_ = leaves;
  }

  void listen() {
    for (Peer& peer : peers_) {
      attempt(peer, [&] {
        while (true) {
          if (!peer.request) {
            peer.request = comm_->receive(peer.place, kBeatTag, std::as_writable_bytes(std::span(&peer.incoming, 1)));
          }
          if (!peer.request->test()) return;
          peer.request.reset();
          peer.state.heard_s = now_s();
          if (peer.incoming.leaves != 0 && peer.state.left_s == 0) peer.state.left_s = peer.state.heard_s;
          peer.state.known = peer.incoming;
        }
      });
    }
  }

  /// Returns true if the job does not have to be watched any more. Does not return if this rank ends the job.
  bool judge() {
    const double now = now_s();
    std::vector<RankState> ranks = {{.rank = number(comm_->rank()), .known = own(leaves_), .heard_s = now, .left_s = left_s_}};
    for (const Peer& peer : peers_) ranks.push_back(peer.state);
    for (const Peer& peer : peers_) {
      const double turn_s = comm_->rank() > 1 ? kTurnS : 0;
      if (const std::string reason = silence(peer.state, now - turn_s, log_.limit_s(), peer.place == 0); !reason.empty()) {
        end(reason + who_waits(ranks, now));
        return true;
      }
    }
    if (comm_->rank() != 0) return false;
    const Verdict verdict = stalled(ranks, now, options_.warn_s);
    if (!verdict.reason.empty() && verdict.ends) {
      end(verdict.reason);
      return true;
    }
    if (!verdict.reason.empty() && verdict.wait != warned_) {
      warned_ = verdict.wait;
      if (options_.warn) options_.warn(verdict.reason);
    }
    const auto has_left = [](const RankState& state) { return state.known && state.known->leaves != 0; };
    return std::ranges::all_of(ranks, has_left) && dismiss();
  }

  bool told_to_end() {
    for (std::size_t rank = 0; rank < ends_.size(); ++rank) {
      if (!ends_[rank] || !has_come(ends_[rank])) continue;
      const std::string reason = end_reasons_[rank].data();
      if (reason.empty()) return true;
      comm_->end_host_within(kEndS);
      record(reason);
      return true;
    }
    return false;
  }

  /// True if a message is complete. A message that fails is given up.
  bool has_come(std::unique_ptr<Request>& message) const {
    try {
      return message->test();
    } catch (const Error&) {
      if (leaves_) throw;
      message.reset();
      return false;
    }
  }

  void record(const std::string& reason) const {
    const std::string failure = log_.record(comm_->rank(), reason);
    if (!failure.empty() && options_.report) options_.report(failure);
  }

  /// Starts to send a reason to all ranks, and returns the requests. Ranks that cannot be reached are left out: they are the
  /// reason, or notice the failure themselves.
  std::vector<std::unique_ptr<Request>> tell_those_there(const Reason& text) {
    std::vector<std::unique_ptr<Request>> told;
    for (int rank = 0; rank < comm_->size(); ++rank) {
      if (rank == comm_->rank()) continue;
      try {
        told.push_back(comm_->send(rank, kEndTag, std::as_bytes(std::span(text))));
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): see above
      }
    }
    return told;
  }

  bool dismiss() {
    const Reason nothing{};
    auto told = tell_those_there(nothing);
    for (const double until = now_s() + kDismissS; !told.empty() && !stop_ && now_s() < until;) {
      std::erase_if(told, [&](auto& message) { return !message || has_come(message); });
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  // Ends the job. end_host_within() is called first, because writing the records may hang if the network is cut.
  void end(const std::string& reason) {
    comm_->end_host_within(kEndS);
    Reason text{};
    reason.copy(text.data(), text.size() - 1);
    std::vector<std::unique_ptr<Request>> told;
    if (comm_->rank() <= 1) told = tell_those_there(text);  // ranks expect this message from ranks 0 and 1 only
    record(reason);
    const double until = now_s() + kRecordsS;
    while (now_s() < until) {
      for (auto& request : told) {
        if (request) static_cast<void>(has_come(request));  // drives the message
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (options_.report) options_.report(reason);
    comm_->abort(1, reason);
  }

  std::unique_ptr<Communicator> comm_;
  ActivityLog& log_;
  WatchdogOptions options_;
  double period_s_ = kLongestPeriodS;
  double next_beat_s_ = 0;
  std::vector<Peer> peers_;  // ranks that this rank watches
  double left_s_ = 0;        // time at which this rank has left; 0: it has not
  bool told_leaving_ = false;
  std::array<Reason, 2> end_reasons_{};  // from ranks 0 and 1
  std::array<std::unique_ptr<Request>, 2> ends_;
  std::string warned_;  // the last wait for which `warn` was called

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> leaves_ = false;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

Watchdog::Watchdog(Communicator& comm, ActivityLog& log, WatchdogOptions options) {
  if (comm.size() > 1) implementation_ = std::make_unique<Implementation>(comm, log, std::move(options));
}

Watchdog::~Watchdog() = default;

void Watchdog::leave() {
  if (implementation_) implementation_->leave();
}

bool Watchdog::over() const { return !implementation_ || implementation_->over(); }

}  // namespace floodtide::comm
