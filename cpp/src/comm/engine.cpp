// SPDX-License-Identifier: Apache-2.0
#include "comm/engine.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <thread>

#include "comm/access.hpp"
#include "comm/backoff.hpp"
#include "comm/schedules.hpp"

namespace floodtide::comm {
namespace {

constexpr std::size_t kMostSchedules = 64;
constexpr const char* kOutOfMemory = "out of memory";  // so short that a std::string of it needs no memory

/// Calls a function if an exception leaves the scope, while the stack is being unwound. Requests that are destroyed during
/// unwinding do not wait for lost ranks.
template <class Function>
class OnFailure : Immovable {
 public:
  explicit OnFailure(Function function) : function_(std::move(function)) {}
  ~OnFailure() {
    if (std::uncaught_exceptions() > exceptions_) function_();
  }

 private:
  Function function_;
  int exceptions_ = std::uncaught_exceptions();
};

std::string position(const OperationState& state) {
  if (state.library) return "in the MPI library";
  return state.execution ? state.execution->position() : "waiting for the last message to leave";
}

}  // namespace

Engine::~Engine() = default;

void Engine::require_sound() const {
  if (!failure_.empty()) raise(ErrorCode::communication, failure_);
}

/// Waits until the next collective may have a tag: none in flight may be kMostOperations collectives older. If younger ones are
/// done, all ranks have started the oldest one, so that the wait ends.
void Engine::make_room() {
  require_own_process(process_);
  while (true) {
    std::shared_ptr<OperationState> oldest;
    {
      const std::lock_guard lock(mutex_);
      require_sound();
      FLOODTIDE_REQUIRE(active_.size() < static_cast<std::size_t>(kMostOperations), out_of_range, "rank ", comm_.rank(), ": ",
                        kMostOperations, " collectives are in flight on a communicator, no more are possible");
      if (active_.empty() || next_number_ - active_.front()->number < kMostOperations) return;
      oldest = active_.front();
    }
    wait_until([&] { return oldest->done.load(); }, comm_.on_wait());
  }
}

void Engine::give_up(std::string_view reason) noexcept {
  if (failure_.empty()) {
    try {
      failure_ = reason;
    } catch (const std::bad_alloc&) {
      failure_ = kOutOfMemory;
    }
  }
  comm_.spoil();
  for (const auto& state : active_) {
    for (const auto& member : state->members) {
      member->execution.reset();
      member->library.reset();
    }
    state->execution.reset();
    state->library.reset();
  }
  active_.clear();
  messages_.give_up();
}

/// Gives up all collectives in flight because of an exception, and throws Error(communication). Other ranks may not know of
/// this failure. Without memory for the error, throws std::bad_alloc.
void Engine::fail(const std::exception& exception) {
  const bool memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr;
  const char* const reason = memory ? kOutOfMemory : exception.what();
  const OnFailure guard([&] { give_up(reason); });
  raise(ErrorCode::communication, reason);
}

AlignedBuffer<std::byte> Engine::borrow(std::size_t bytes) {
  if (bytes == 0) return {};
  const auto fits = [&](const AlignedBuffer<std::byte>& buffer) { return static_cast<std::size_t>(buffer.size()) >= bytes; };
  const auto found = std::ranges::find_if(spare_, fits);
  if (found == spare_.end()) {
    // The MPI library copies large messages from the memory of the other process, page by page. One huge page is faster.
    const bool large = bytes >= kHugePage / 4;
    return AlignedBuffer<std::byte>(static_cast<std::int64_t>(large ? std::max(bytes, kHugePage) : bytes));
  }
  AlignedBuffer<std::byte> buffer = std::move(*found);
  spare_.erase(found);
  return buffer;
}

/// Starts a collective: gives it a number, calls prepare(state), and sends the first ballot. A member of a group gets its
/// number later.
template <class Prepare>
Operation Engine::add(const Notice& notice, std::string_view words, Prepare&& prepare) {
  if (comm_.size() == 1) return {};
  make_room();
  const std::lock_guard lock(mutex_);
  require_sound();
  auto state = std::make_shared<OperationState>();
  state->number = next_number_;
  state->ranks = comm_.size();
  state->notice = notice;
  state->notice.called = notice_hash(std::as_bytes(std::span(words)));
  state->words = words;
  state->ballot = Ballot::of_caller(state->number, state->notice, comm_.rank(), comm_.size());
  prepare(*state);
  if (group_ && (state->execution || state->start_library)) {
    state->phase = Phase::gathering;
    group_->push_back(state);
  } else {
    ++next_number_;
    launch(state);
  }
  return {*this, state};
}

/// Sends the first ballot of a collective. The caller holds the mutex.
void Engine::launch(const std::shared_ptr<OperationState>& state) {
  try {
    active_.push_back(state);
    if (state->phase == Phase::agreeing) messages_.send(comm_, 0, state->ballot);
    agree();
    advance(*state);
  } catch (const std::exception& exception) {
    fail(exception);
  }
  drop_done();
}

Operation Engine::start(Notice notice, SharedSchedule schedule, const Payload& payload, std::string_view words,
                        NextStage next) {
  return add(notice, words, [&](OperationState& state) { prepare_own(state, std::move(schedule), payload, std::move(next)); });
}

Operation Engine::start_library(Notice notice, const ReduceBuffer& buffer, std::string_view words) {
  return add(notice, words, [&](OperationState& state) { prepare_library(state, buffer); });
}

Operation Engine::start_empty(Collective collective, std::string_view words) {
  return add({.collective = collective}, words, [](OperationState&) {});
}

void Engine::prepare_own(OperationState& state, SharedSchedule schedule, const Payload& payload, NextStage next) {
  const std::int64_t segment = Execution::segment_elements(payload, static_cast<std::size_t>(state.notice.segment_bytes));
  state.scratch = borrow(Execution::scratch_bytes(*schedule, payload, segment));
  state.execution = std::make_unique<Execution>(comm_, std::move(schedule), payload, segment, operation_tag(state.number),
                                                state.scratch.span(), std::move(next));
}

void Engine::prepare_library(OperationState& state, const ReduceBuffer& buffer) {
  comm_.require_library_allreduce(buffer.type);
  state.start_library = [this, buffer, op = state.notice.op] { return comm_.start_library_allreduce(buffer, op); };
}

Ballot Engine::await_others(std::int64_t joined_at) {
  const Operation operation = add({.collective = Collective::join}, {}, [&](OperationState& own) {
    own.ballot = Ballot::of_joined(own.number, joined_at, comm_.rank(), comm_.size());
  });
  wait(*operation.state_);
  return operation.state_->ballot;
}

Operation Engine::follow(const Ballot& agreed, SharedSchedule schedule, const Payload& payload) {
  return add_agreed(agreed, [&](OperationState& state) { prepare_own(state, std::move(schedule), payload); });
}

Operation Engine::follow_library(const Ballot& agreed, const ReduceBuffer& buffer) {
  return add_agreed(agreed, [&](OperationState& state) {
    prepare_library(state, buffer);
    state.library = std::exchange(state.start_library, {})();
  });
}

/// Starts the second phase of a collective on a rank that has joined. The rank has taken part in the agreement already.
template <class Prepare>
Operation Engine::add_agreed(const Ballot& agreed, Prepare&& prepare) {
  const std::lock_guard lock(mutex_);
  require_sound();
  auto state = std::make_shared<OperationState>();
  state->number = agreed.number();
  state->notice = agreed.notice();
  state->phase = Phase::moving;
  prepare(*state);
  launch(state);
  return {*this, state};
}

/// Receives the ballots that have arrived, and passes them on, in the order of the collectives.
bool Engine::agree() {
  bool moved = false;
  int open = messages_.rounds();  // ballots of this and later rounds must first be received for an earlier collective
  for (const auto& state : active_) {
    if (open == 0) break;
    if (state->phase != Phase::agreeing) continue;
    while (state->round < open && messages_.add_next(comm_, state->round, state->ballot)) {
      moved = true;
      if (++state->round < messages_.rounds()) messages_.send(comm_, state->round, state->ballot);
    }
    if (state->round == messages_.rounds()) {
      decide(*state);
    } else {
      open = state->round;
    }
  }
  return moved;
}

/// Decides how a collective continues after its agreement. All ranks come to the same decision.
void Engine::decide(OperationState& state) {
  const Ballot& ballot = state.ballot;
  if (ballot.differs()) return explain(state);
  state.phase = Phase::moving;
  const Notice& notice = ballot.notice();
  const std::vector<int> joined = ballot.joined();
  const bool needs_them = !can_be_joined(notice);
  const bool needs_root = notice.root >= 0 && ballot.has_joined(notice.root);
  if (!ballot.all_joined() && !joined.empty() && (needs_them || needs_root)) {
    const std::string ranks = needs_root ? name_ranks(std::array{notice.root}) : name_ranks(joined);
    const bool one = needs_root || joined.size() == 1;
    state.failure.emplace(ErrorCode::unsupported,
                          str_cat("collective ", state.number, ", ", describe(notice), ", needs values of ", ranks, ", which ",
                                  one ? "has" : "have", " joined"),
                          needs_root ? notice.root : joined.front(), comm_.size());
    state.execution.reset();
    state.start_library = {};
    return;
  }
  if (state.start_library) state.library = std::exchange(state.start_library, {})();
  if (!state.members.empty() && !joined.empty()) tell_members(state);
  for (const auto& member : state.members) {
    member->phase = Phase::moving;
    member->ballot = ballot;
    if (member->start_library) member->library = std::exchange(member->start_library, {})();
  }
}

void Engine::explain(OperationState& state) {
  state.phase = Phase::explaining;
  state.accounts.resize(static_cast<std::size_t>(comm_.size()));
  state.accounts[static_cast<std::size_t>(comm_.rank())] = account_of(state.notice, state.words);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(state.accounts));
  const auto length = static_cast<std::int64_t>(bytes.size());
  auto schedule = ring_phase({comm_.rank(), comm_.size()}, even_blocks(length, comm_.size()), 0, false);
  state.execution = std::make_unique<Execution>(comm_, std::move(schedule), Payload{.data = bytes.data()}, length,
                                                operation_tag(state.number), std::span<std::byte>{});
}

bool Engine::advance(OperationState& state) {
  if (state.phase == Phase::agreeing || state.phase == Phase::gathering) return false;
  bool moved = false;
  if (state.execution) moved = state.execution->advance();
  if (state.library && state.library->test()) {
    state.library.reset();
    moved = true;
  }
  if (state.needs_messages() || !messages_.have_left(state.number)) return moved;
  if (state.phase == Phase::explaining) {
    state.failure.emplace(ErrorCode::communication, disagreement(state.number, state.accounts), 0, comm_.size());
  }
  if (!state.members.empty()) {
    moved = advance_members(state) || moved;
    if (!state.members.empty()) return moved;
  }
  state.execution.reset();
  if (state.scratch.size() > 0) spare_.push_back(std::move(state.scratch));
  state.done = true;
  return true;
}

void Engine::drop_done() {
  std::erase_if(active_, [](const auto& state) { return state->done.load(); });
}

bool Engine::progress() {
  require_own_process(process_);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;  // another thread drives the operations
  require_sound();
  if (active_.empty()) return false;
  bool moved = false;
  try {
    moved = agree();
    for (const auto& state : active_) moved = advance(*state) || moved;
  } catch (const std::exception& exception) {
    fail(exception);
  }
  drop_done();
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
  require_own_process(process_);
  FLOODTIDE_REQUIRE(!is_gathering(state), invalid_argument, describe(state.notice), ": part of a group that is not started");
  const OnFailure guard([&] { abandon(state); });
  wait_until([&] { return state.done.load(); }, comm_.on_wait());
  state.require_success();
}

void Engine::abandon(const OperationState& state) noexcept {
  if (!process_.is_here()) return;
  const std::lock_guard lock(mutex_);
  if (state.done) return;
  try {
    give_up(str_cat("rank ", comm_.rank(), ": ", describe(state.notice), " was abandoned"));
  } catch (const std::bad_alloc&) {
    give_up(kOutOfMemory);
  }
}

void Engine::complete(const OperationState& state) noexcept {
  if (!process_.is_here()) return;
  if (is_gathering(state)) return drop_group();
  if (std::uncaught_exceptions() > 0) return abandon(state);
  try {
    wait_until([&] { return state.done.load(); }, comm_.on_wait());
  } catch (...) {  // of on_wait, or a failure; the next call on the communicator throws it
    abandon(state);
  }
}

void Engine::finish_all() {
  require_own_process(process_);
  const auto nothing_left = [&] {
    const std::lock_guard lock(mutex_);
    require_sound();
    return active_.empty() && messages_.all_left();
  };
  wait_until(nothing_left, comm_.on_wait());
}

/// Return the ranks that an agreement still waits for, as text.
std::string Engine::waits_for(const OperationState& state) const {
  const std::vector<int> ranks = messages_.heard_in(state.round);
  return str_cat("waiting for ", ranks.size() == 1 ? "" : "one of ", name_ranks(ranks), " to start it");
}

std::vector<std::string> Engine::pending() const {
  std::unique_lock lock(mutex_, std::defer_lock);
  for (int attempt = 0; attempt < 100 && !lock.try_lock(); ++attempt) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!lock.owns_lock()) return {"a call of the transport that does not return"};
  std::vector<std::string> lines;
  for (const auto& state : active_) {
    const std::string what = str_cat("collective ", state->number, ", ", describe(state->notice), ": ");
    switch (state->phase) {
      case Phase::gathering: break;  // not started yet
      case Phase::agreeing: lines.push_back(what + waits_for(*state)); break;
      case Phase::explaining: lines.push_back(str_cat(what, "ranks differ, ", state->execution->position())); break;
      case Phase::moving: lines.push_back(what + position(*state)); break;
    }
  }
  return lines;
}

SharedSchedule Engine::allreduce_schedule(const AllreduceRow& row, std::int64_t count) {
  const std::span<const int> nodes = row.nodes_only ? comm_.nodes() : std::span<const int>{};
  const std::lock_guard lock(mutex_);
  const std::pair key(&row, count);
  if (const auto found = schedules_.find(key); found != schedules_.end()) return found->second;
  if (schedules_.size() >= kMostSchedules) schedules_.clear();
  auto schedule = std::make_shared<const MessageSchedule>(row.schedule({comm_.rank(), comm_.size(), nodes}, count));
  return schedules_.emplace(key, std::move(schedule)).first->second;
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
  if (!state_) return true;
  if (!state_->done) engine_->progress();
  if (!state_->done) return false;
  engine_->wait(*state_);  // throws if the collective failed, and in a child of fork()
  return true;
}

void Operation::wait() {
  if (state_) engine_->wait(*state_);
}

int Operation::contributors() const { return state_ ? state_->ranks - static_cast<int>(state_->ballot.joined().size()) : 1; }

void Operation::abandon() noexcept {
  if (state_) engine_->abandon(*state_);
  state_.reset();
}

bool progress(Communicator& comm) { return engine_of(comm).progress(); }

}  // namespace floodtide::comm
