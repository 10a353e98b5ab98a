// SPDX-License-Identifier: Apache-2.0
// Each rank has a mailbox. A message is copied to the mailbox of the receiver, and gets the next number of its channel (sender,
// tag). Each receive waits for the number that it got when it was posted. Messages therefore match in the same order as in MPI.
#include "support/threads.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/communicator.hpp"

namespace floodtide::comm {
namespace {

constexpr std::chrono::milliseconds kOnWaitPeriod{50};

struct Channel {
  std::uint64_t sent = 0;
  std::uint64_t expected = 0;
  std::map<std::uint64_t, std::vector<std::byte>> messages;
};

/// State of all communicators of one job. All ranks share one condition variable, because a job of threads has few ranks.
struct Job {
  std::mutex mutex;  // guards this object and all hubs of the job
  std::condition_variable changed;
  std::string failure;
  bool aborted = false;

  void require_alive() const {
    if (aborted) raise(ErrorCode::communication, failure);
  }
};

/// State that the ranks of one communicator share.
struct Hub {
  Hub(std::shared_ptr<Job> of_job, int size) : job(std::move(of_job)), mailboxes(static_cast<std::size_t>(size)) {}

  std::shared_ptr<Job> job;
  std::vector<std::map<std::pair<int, int>, Channel>> mailboxes;          // one per receiver; key: (sender, tag)
  std::map<std::pair<std::int64_t, int>, std::shared_ptr<Hub>> children;  // key: (number of the split, color)
};

class Sent final : public Request {
 public:
  bool test() override { return true; }
  void wait() override {}
};

class Receive final : public Request {
 public:
  Receive(std::shared_ptr<Hub> hub, const Communicator& owner, int from, int tag, std::span<std::byte> out_data)
      : hub_(std::move(hub)), owner_(owner), from_(from), tag_(tag), data_(out_data) {
    const std::lock_guard lock(hub_->job->mutex);
    channel_ = &hub_->mailboxes[static_cast<std::size_t>(owner.rank())][{from, tag}];
    number_ = channel_->expected++;
  }

  bool test() override {
    const std::lock_guard lock(hub_->job->mutex);
    return done_ || take();
  }

  void wait() override {
    std::unique_lock lock(hub_->job->mutex);
    auto due = std::chrono::steady_clock::now() + kOnWaitPeriod;
    while (!done_ && !take()) {
      if (hub_->job->changed.wait_until(lock, due) != std::cv_status::timeout) continue;  // a message for some rank
      due += kOnWaitPeriod;
      if (!owner_.on_wait()) continue;
      lock.unlock();
      owner_.on_wait()();
      lock.lock();
    }
  }

 private:
  bool take() {
    const auto message = channel_->messages.find(number_);
    if (message == channel_->messages.end()) {
      hub_->job->require_alive();
      return false;
    }
    const std::vector<std::byte> data = std::move(message->second);
    channel_->messages.erase(message);
    done_ = true;
    FLOODTIDE_REQUIRE(data.size() == data_.size(), communication, "rank ", owner_.rank(), ": message from rank ", from_,
                      " with tag ", tag_, " has ", data.size(), " bytes, expected ", data_.size());
    std::copy(data.begin(), data.end(), data_.begin());
    return true;
  }

  std::shared_ptr<Hub> hub_;
  const Communicator& owner_;
  int from_;
  int tag_;
  std::span<std::byte> data_;
  Channel* channel_ = nullptr;
  std::uint64_t number_ = 0;
  bool done_ = false;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Hub> hub, int rank, int size) : Communicator(rank, size), hub_(std::move(hub)) {}

  std::string description() const override { return "threads"; }
  std::string node_name() const override { return "this process"; }

  std::unique_ptr<Communicator> split(int color, int key) override {
    FLOODTIDE_REQUIRE(color >= 0, invalid_argument, "split: color is ", color, ", expected at least 0");
    const std::int64_t own[2] = {color, key};
    const auto all = allgather(*this, std::as_bytes(std::span(own)));
    int new_rank = 0;
    int new_size = 0;
    for (int other = 0; other < size(); ++other) {
      std::int64_t theirs[2];
      std::copy(all[static_cast<std::size_t>(other)].begin(), all[static_cast<std::size_t>(other)].end(),
                std::as_writable_bytes(std::span(theirs)).begin());
      if (theirs[0] != color) continue;
      ++new_size;
      if (theirs[1] < key || (theirs[1] == key && other < rank())) ++new_rank;
    }
    return std::make_unique<ThreadCommunicator>(child(color, new_size), new_rank, new_size);
  }

  void abort(int, std::string_view reason) override {
    const std::string failure = str_cat("rank ", rank(), " ended the job: ", reason);
    {
      const std::lock_guard lock(hub_->job->mutex);
      if (!hub_->job->aborted) hub_->job->failure = failure;
      hub_->job->aborted = true;
    }
    hub_->job->changed.notify_all();
    raise(ErrorCode::communication, failure);
  }

 private:
  std::unique_ptr<Request> start_send(int to, int tag, std::span<const std::byte> data) override {
    const std::lock_guard lock(hub_->job->mutex);
    hub_->job->require_alive();
    Channel& channel = hub_->mailboxes[static_cast<std::size_t>(to)][{rank(), tag}];
    auto request = std::make_unique<Sent>();
    channel.messages.emplace(channel.sent, std::vector<std::byte>(data.begin(), data.end()));
    ++channel.sent;  // not before: a message that cannot be stored has no number
    hub_->job->changed.notify_all();
    return request;
  }

  std::unique_ptr<Request> start_receive(int from, int tag, std::span<std::byte> out_data) override {
    return std::make_unique<Receive>(hub_, *this, from, tag, out_data);
  }

  std::shared_ptr<Hub> child(int color, int users) {
    const std::lock_guard lock(hub_->job->mutex);
    hub_->job->require_alive();
    std::shared_ptr<Hub>& hub = hub_->children[{splits_++, color}];
    if (!hub) hub = std::make_shared<Hub>(hub_->job, users);
    return hub;
  }

  std::shared_ptr<Hub> hub_;
  std::int64_t splits_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> threads(int size) {
  FLOODTIDE_REQUIRE(size >= 1, invalid_argument, "threads: ", size, " ranks, expected at least 1");
  const auto hub = std::make_shared<Hub>(std::make_shared<Job>(), size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<ThreadCommunicator>(hub, rank, size));
  }
  return ranks;
}

void run_threads(int size, const std::function<void(Communicator&)>& body) {
  const auto ranks = threads(size);
  std::mutex mutex;
  std::exception_ptr first_failure;
  const auto run = [&](Communicator& comm) {
    try {
      body(comm);
    } catch (...) {
      std::string reason = "an exception of unknown type";
      {
        const std::lock_guard lock(mutex);
        if (!first_failure) first_failure = std::current_exception();
      }
      try {
        throw;
      } catch (const std::exception& error) {
        reason = error.what();
      } catch (...) {  // NOLINT(bugprone-empty-catch): the reason is set above
      }
      try {
        comm.abort(1, reason);
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): abort wakes the others, then throws; the failure is kept
      }
    }
  };
  std::vector<std::thread> workers;
  for (const auto& comm : ranks) workers.emplace_back(run, std::ref(*comm));
  for (std::thread& worker : workers) worker.join();
  if (first_failure) std::rethrow_exception(first_failure);
}

}  // namespace floodtide::comm
