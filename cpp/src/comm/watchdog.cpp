// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/watchdog.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "floodtide/base/clock.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

constexpr int kBeatTag = 1;
constexpr int kEndTag = 2;
constexpr double kBeatsPerTimeout = 8;
constexpr double kLongestPeriodS = 2;
constexpr double kRecordsS = 0.5;  // that the other ranks have to write their records

/// What a rank tells: 64 bytes, the same layout on all ranks of a job.
struct Beat {
  std::int64_t step = -1;
  std::int64_t bucket = -1;
  double for_s = 0;        // how long it has been doing this
  std::int64_t waits = 0;  // 1: in a collective
  std::int64_t leaves = 0;
  std::array<char, 24> doing{};
};
static_assert(sizeof(Beat) == 64);

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

/// The message that ends the job, cut to what travels.
using Reason = std::array<char, 256>;

/// The last that is known of a rank, and the message that will say more.
struct Peer {
  int rank = 0;
  Beat incoming{};
  std::optional<Beat> known;
  double heard_s = 0;
  std::unique_ptr<Request> request;
};

std::string what(const Beat& beat) {
  std::string text(beat.doing.data());
  if (text.empty()) text = "nothing recorded";
  if (beat.step >= 0) text += str_cat(" of step ", beat.step);
  if (beat.bucket >= 0) text += str_cat(", bucket ", beat.bucket);
  return text;
}

std::string last_known(const Peer& peer) { return peer.known ? str_cat("last known: ", what(*peer.known)) : "never heard of"; }

}  // namespace

class Watchdog::Implementation {
 public:
  Implementation(Communicator& comm, const Timeline& timeline, WatchdogOptions options)
      : comm_(comm.split(0, comm.rank())),
        timeline_(timeline),
        options_(std::move(options)),
        period_s_(std::min(options_.timeout_s / kBeatsPerTimeout, kLongestPeriodS)),
        watcher_(comm_->rank() == 0 ? 1 : 0) {
    if (comm_->rank() == 0) {
      for (int rank = 1; rank < comm_->size(); ++rank) listen_to(rank);
    } else if (comm_->rank() == 1) {
      listen_to(0);
    }
    for (int rank = 0; rank < std::min(2, comm_->size()); ++rank) {
      if (rank == comm_->rank()) continue;
      ends_[static_cast<std::size_t>(rank)] =
          comm_->receive(rank, kEndTag, std::as_writable_bytes(std::span(end_reasons_[static_cast<std::size_t>(rank)])));
    }
    thread_ = std::thread([this] { run(); });
  }

  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  Implementation(Implementation&&) = delete;
  Implementation& operator=(Implementation&&) = delete;

  ~Implementation() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void listen_to(int rank) {
    Peer& peer = peers_.emplace_back();
    peer.rank = rank;
    peer.heard_s = now_s();
  }

  void run() {
    try {
      for (Peer& peer : peers_) expect(peer);
      while (true) {
        tell(false);
        listen();
        if (told_to_end()) return;
        if (const std::string reason = judge(); !reason.empty()) {
          end(reason);
          return;
        }
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, std::chrono::duration<double>(period_s_), [this] { return over_; })) break;
      }
      tell(true);
      if (sent_) sent_->wait();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the ranks' own calls fail, too, and say so
    }
  }

  void expect(Peer& peer) {
    peer.request = comm_->receive(peer.rank, kBeatTag, std::as_writable_bytes(std::span(&peer.incoming, 1)));
  }

  [[nodiscard]] Beat own(bool leaves) const {
    Beat beat;
    const auto communication = timeline_.current("communication");
    const auto event = communication ? communication : timeline_.current("step");
    beat.leaves = leaves ? 1 : 0;
    if (!event) return beat;
    beat.step = event->step;
    beat.bucket = event->bucket;
    beat.for_s = now_s() - seconds(event->start_ns);
    beat.waits = communication ? 1 : 0;
    event->name.copy(beat.doing.data(), beat.doing.size() - 1);
    return beat;
  }

  void tell(bool leaves) {
    if (sent_ && !sent_->test() && !leaves) return;  // the watcher has not taken the last one yet
    if (sent_) sent_->wait();
    outgoing_ = own(leaves);
    sent_ = comm_->send(watcher_, kBeatTag, std::as_bytes(std::span(&outgoing_, 1)));
  }

  void listen() {
    for (Peer& peer : peers_) {
      while (peer.request && peer.request->test()) {
        peer.request.reset();
        peer.known = peer.incoming;
        peer.heard_s = now_s();
        if (peer.known->leaves == 0) expect(peer);
      }
    }
  }

  // Why the job should end, empty if it should not.
  [[nodiscard]] std::string judge() const {
    const double now = now_s();
    for (const Peer& peer : peers_) {
      const bool left = peer.known && peer.known->leaves != 0;
      if (!left && now - peer.heard_s > options_.timeout_s) {
        return str_cat("rank ", peer.rank, " has been silent for ", options_.timeout_s, " s (", last_known(peer), ')');
      }
    }
    if (comm_->rank() != 0) return "";
    // Each rank as of now: this one, then the peers, whose beats may be a period old.
    struct State {
      int rank;
      Beat beat;
      double silent_s;
    };
    std::vector<State> ranks = {{0, own(false), 0}};
    for (const Peer& peer : peers_) {
      if (peer.known) ranks.push_back({peer.rank, *peer.known, now - peer.heard_s});
    }
    const auto stuck = [&](const State& state) {
      return state.beat.leaves == 0 && state.beat.waits != 0 && state.beat.for_s > options_.timeout_s - period_s_;
    };
    const auto waiting = std::ranges::find_if(ranks, stuck);
    if (waiting == ranks.end()) return "";
    std::string blamed;
    for (const auto& [rank, beat, silent_s] : ranks) {
      const bool silent = beat.leaves == 0 && silent_s > 2 * period_s_;  // what was known of it last may be over
      const bool behind = silent || beat.leaves != 0 || beat.waits == 0 || beat.step < waiting->beat.step ||
                          (beat.step == waiting->beat.step && beat.bucket < waiting->beat.bucket);
      if (!behind) continue;
      blamed += str_cat(blamed.empty() ? "" : ", ", "rank ", rank, " (",
                        beat.leaves != 0 ? "has left" : str_cat(silent ? "silent since: " : "", what(beat)), ')');
    }
    if (blamed.empty()) blamed = "all ranks are in it: a message is missing";
    return str_cat("rank ", waiting->rank, " has been waiting for ", options_.timeout_s, " s in ", what(waiting->beat), " for ",
                   blamed);
  }

  bool told_to_end() {
    for (std::size_t rank = 0; rank < ends_.size(); ++rank) {
      if (!ends_[rank] || !ends_[rank]->test()) continue;
      record(end_reasons_[rank].data());
      return true;
    }
    return false;
  }

  void record(std::string_view reason) const {
    if (options_.record_path.empty()) return;
    try {
      timeline_.dump(options_.record_path, comm_->rank(), reason);
    } catch (const Error& error) {
      if (options_.report) options_.report(error.what());
    }
  }

  void end(const std::string& reason) {
    Reason text{};
    reason.copy(text.data(), text.size() - 1);
    std::vector<std::unique_ptr<Request>> told;
    for (int rank = 0; rank < comm_->size(); ++rank) {
      if (rank != comm_->rank()) told.push_back(comm_->send(rank, kEndTag, std::as_bytes(std::span(text))));
    }
    record(reason);
    const double until = now_s() + kRecordsS;
    while (now_s() < until) {
      for (const auto& request : told) static_cast<void>(request->test());  // lets the messages leave
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (options_.report) options_.report(reason);
    comm_->abort(1, reason);
  }

  std::unique_ptr<Communicator> comm_;
  const Timeline& timeline_;
  WatchdogOptions options_;
  double period_s_;
  int watcher_;
  std::vector<Peer> peers_;  // whom this rank watches
  Beat outgoing_{};
  std::unique_ptr<Request> sent_;
  std::array<Reason, 2> end_reasons_{};  // from ranks 0 and 1
  std::array<std::unique_ptr<Request>, 2> ends_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

Watchdog::Watchdog(Communicator& comm, const Timeline& timeline, WatchdogOptions options) {
  FLOODTIDE_REQUIRE(options.timeout_s > 0, invalid_argument, "watchdog: the timeout is ", options.timeout_s,
                    " s, expected a positive number");
  if (comm.size() > 1) implementation_ = std::make_unique<Implementation>(comm, timeline, std::move(options));
}

Watchdog::~Watchdog() = default;

}  // namespace floodtide::comm
