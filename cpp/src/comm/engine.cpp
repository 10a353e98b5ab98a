// SPDX-License-Identifier: Apache-2.0
#include "comm/engine.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <thread>

#include "comm/backoff.hpp"
#include "comm/tags.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

constexpr std::size_t kMostSchedules = 64;
/// While values are still missing, notices are looked at in every so-many-th pass: they matter only when something is wrong.
constexpr unsigned kNoticePasses = 16;
constexpr std::chrono::milliseconds kExplanation{50};

/// Calls a function if an exception passes, while it passes: requests that are dropped then do not wait for lost ranks.
template <class Function>
class OnFailure {
 public:
  explicit OnFailure(Function function) : function_(std::move(function)) {}
  OnFailure(const OnFailure&) = delete;
  OnFailure& operator=(const OnFailure&) = delete;
  OnFailure(OnFailure&&) = delete;
  OnFailure& operator=(OnFailure&&) = delete;
  ~OnFailure() {
    if (std::uncaught_exceptions() > exceptions_) function_();
  }

 private:
  Function function_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

Engine::~Engine() = default;

void Engine::require_sound() const {
  if (!failure_.empty()) raise(ErrorCode::communication, failure_);
}

void Engine::give_up(const std::string& reason) {
  if (failure_.empty()) failure_ = reason;
  for (const auto& state : active_) {
    state->execution.reset();
    state->library.reset();
  }
  active_.clear();
  unconfirmed_.clear();
  arrival_.reset();
  outgoing_.clear();
}

/// Throws the failure after all in flight is given up. A message of another length may come before the notice that says what
/// its sender is in, which explains it better.
void Engine::fail(std::string reason) {
  const OnFailure guard([&] { give_up(reason); });
  const auto deadline = std::chrono::steady_clock::now() + kExplanation;
  while (!unconfirmed_.empty() && std::chrono::steady_clock::now() < deadline) {
    bool moved = false;
    if (const std::string explanation = compare_notices(moved); !explanation.empty()) {
      reason = explanation;
      break;
    }
  }
  raise(ErrorCode::communication, reason);
}

AlignedBuffer<std::byte> Engine::borrow(std::size_t bytes) {
  if (bytes == 0) return {};
  const auto fits = [&](const AlignedBuffer<std::byte>& buffer) { return static_cast<std::size_t>(buffer.size()) >= bytes; };
  const auto found = std::ranges::find_if(spare_, fits);
  if (found == spare_.end()) {
    // The MPI library reads large messages from the other process, page by page: one huge page is faster.
    const bool large = bytes >= kHugePage / 4;
    return AlignedBuffer<std::byte>(static_cast<std::int64_t>(large ? std::max(bytes, kHugePage) : bytes));
  }
  AlignedBuffer<std::byte> buffer = std::move(*found);
  spare_.erase(found);
  return buffer;
}

/// Numbers a collective, has its means prepared, and starts it.
template <class Prepare>
Operation Engine::add(Notice notice, Prepare&& prepare) {
  if (comm_.size() == 1) return {};
  const std::lock_guard lock(mutex_);
  require_sound();
  FLOODTIDE_REQUIRE(active_.size() < static_cast<std::size_t>(kMostOperations), out_of_range, "rank ", comm_.rank(), ": ",
                    kMostOperations, " collectives are in flight on a communicator, no more are possible");
  auto state = std::make_shared<OperationState>();
  notice.number = next_number_;
  state->notice = notice;
  prepare(*state);
  const bool invited = std::exchange(invited_, false);
  if (invited && state->notice != incoming_) fail(mismatch(comm_.rank(), state->notice, before(), incoming_));
  ++next_number_;
  active_.push_back(state);
  if (!invited) unconfirmed_.push_back(state->notice);
  try {
    send_notice(state->notice);
    if (state->execution) state->execution->advance();
  } catch (const Error& error) {
    fail(error.what());
  }
  return {*this, state};
}

Operation Engine::start(const Notice& notice, std::shared_ptr<const Schedule> schedule, const Payload& payload) {
  return add(notice, [&](OperationState& state) {
    const std::int64_t segment = Execution::segment_elements(payload, static_cast<std::size_t>(notice.segment_bytes));
    state.scratch = borrow(Execution::scratch_bytes(*schedule, payload, segment));
    state.execution = std::make_unique<Execution>(comm_, std::move(schedule), payload, segment, operation_tag(next_number_),
                                                  state.scratch.span());
  });
}

Operation Engine::start_service(Collective service) {
  return start({.collective = service}, std::make_shared<const Schedule>(), {});
}

Operation Engine::start_library(const Notice& notice, const ReduceBuffer& buffer) {
  return add(notice, [&](OperationState& state) { state.library = comm_.start_library_allreduce(buffer, notice.op); });
}

void Engine::send_notice(const Notice& notice) {
  Outgoing& out = outgoing_.emplace_back(Outgoing{notice, nullptr});
  out.request = comm_.send_notice((comm_.rank() + 1) % comm_.size(), std::as_bytes(std::span(&out.notice, 1)));
  drop_sent_notices();
}

void Engine::drop_sent_notices() {
  while (!outgoing_.empty() && outgoing_.front().request->test()) outgoing_.pop_front();
}

void Engine::tell_next(const Notice& notice) {
  const std::lock_guard lock(mutex_);
  require_sound();
  send_notice(notice);
}

/// True once there is a new incoming_.
bool Engine::receive_notice() {
  if (!arrival_) arrival_ = comm_.receive(before(), kNoticeTag, std::as_writable_bytes(std::span(&incoming_, 1)));
  if (!arrival_->test()) return false;
  arrival_.reset();
  return true;
}

/// Empty, or what this rank and the one before do not agree on.
std::string Engine::compare_notices(bool& out_moved) {
  while (!unconfirmed_.empty() && receive_notice()) {
    // The ranks before have joined and look whether all have: not this one, and they will hear what it has started.
    if (incoming_.purpose == Purpose::joining) continue;
    if (incoming_ != unconfirmed_.front()) return mismatch(comm_.rank(), unconfirmed_.front(), before(), incoming_);
    unconfirmed_.pop_front();
    out_moved = true;
  }
  return {};
}

bool Engine::advance(OperationState& state) {
  bool moved = false;
  if (state.execution) moved = state.execution->advance();
  if (state.library && state.library->test()) {
    state.library.reset();
    moved = true;
  }
  if (state.needs_messages()) return moved;
  drop_sent_notices();
  const bool told = outgoing_.empty() || outgoing_.front().notice.number > state.notice.number;
  const bool confirmed = unconfirmed_.empty() || unconfirmed_.front().number > state.notice.number;
  if (!told || !confirmed) return moved;
  state.execution.reset();
  if (state.scratch.size() > 0) spare_.push_back(std::move(state.scratch));
  state.done = true;
  return true;
}

bool Engine::progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // another thread does it
  require_sound();
  if (active_.empty()) return false;
  bool moved = false;
  std::string failure;
  try {
    bool complete = false;
    for (const auto& state : active_) {
      moved = advance(*state) || moved;
      complete = complete || state->done;
    }
    if (complete) std::erase_if(active_, [](const auto& state) { return state->done.load(); });
    const bool data_is_here = std::ranges::none_of(active_, [](const auto& state) { return state->needs_messages(); });
    if (data_is_here || ++passes_ % kNoticePasses == 0) failure = compare_notices(moved);
  } catch (const Error& error) {
    failure = error.what();
  }
  if (!failure.empty()) fail(failure);
  return moved;
}

void Engine::wait_until(const std::function<bool()>& reached, const std::function<void()>& on_wait) {
  Backoff backoff(on_wait);
  while (!reached()) {
    if (progress()) {
      backoff.reset();
    } else {
      backoff.pause();
    }
  }
}

void Engine::wait(const OperationState& state) {
  const OnFailure guard([&] { abandon(state); });
  wait_until([&] { return state.done.load(); }, comm_.on_wait());
}

void Engine::abandon(const OperationState& state) {
  const std::lock_guard lock(mutex_);
  if (!state.done) give_up(str_cat("rank ", comm_.rank(), ": ", describe(state.notice), " was abandoned"));
}

void Engine::complete(const OperationState& state) noexcept {
  if (std::uncaught_exceptions() > 0) return abandon(state);
  try {
    wait_until([&] { return state.done.load(); }, {});
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it is kept, and the next call on the communicator throws it
  }
}

void Engine::finish_all() {
  const auto nothing_left = [&] {
    const std::lock_guard lock(mutex_);
    require_sound();
    drop_sent_notices();
    return active_.empty() && outgoing_.empty();
  };
  wait_until(nothing_left, comm_.on_wait());
}

Notice Engine::await_invitation() {
  Backoff backoff(comm_.on_wait());
  for (;; backoff.pause()) {
    const std::lock_guard lock(mutex_);
    require_sound();
    if (!receive_notice()) continue;
    if (incoming_.number != next_number_) {
      fail(mismatch(comm_.rank(), {.number = next_number_, .purpose = Purpose::joining}, before(), incoming_));
    }
    invited_ = incoming_.purpose == Purpose::collective;
    return incoming_;
  }
}

std::vector<std::string> Engine::pending() const {
  std::unique_lock lock(mutex_, std::defer_lock);
  for (int attempt = 0; attempt < 100 && !lock.try_lock(); ++attempt) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!lock.owns_lock()) return {"a call of the transport that does not return"};
  std::vector<std::string> lines;
  for (const auto& state : active_) {
    const std::string what = str_cat("collective ", state->notice.number, ", ", describe(state->notice), ": ");
    if (!state->needs_messages()) {
      lines.push_back(str_cat(what, "waiting for rank ", before(), " to start it"));
    } else {
      lines.push_back(what + (state->execution ? state->execution->position() : "in the MPI library"));
    }
  }
  return lines;
}

std::shared_ptr<const Schedule> Engine::allreduce_schedule(const AllreduceRow& row, std::int64_t count) {
  const std::span<const int> nodes = row.name == "two_level" ? comm_.nodes() : std::span<const int>{};
  const std::lock_guard lock(mutex_);
  if (schedules_.size() >= kMostSchedules) schedules_.clear();
  auto& schedule = schedules_[{&row, count}];
  if (!schedule) schedule = std::make_shared<const Schedule>(row.schedule({comm_.rank(), comm_.size(), nodes}, count));
  return schedule;
}

Operation& Operation::operator=(Operation&& other) noexcept {
  if (this != &other) {
    complete();
    engine_ = std::exchange(other.engine_, nullptr);
    state_ = std::move(other.state_);
  }
  return *this;
}

Operation::~Operation() { complete(); }

void Operation::complete() noexcept {
  if (state_ && !state_->done) engine_->complete(*state_);
  state_.reset();
}

bool Operation::test() {
  if (!state_ || state_->done) return true;
  engine_->progress();
  return state_->done;
}

void Operation::wait() {
  if (state_ && !state_->done) engine_->wait(*state_);
}

bool progress(Communicator& comm) { return comm.engine().progress(); }

}  // namespace floodtide::comm
