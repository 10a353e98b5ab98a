// SPDX-License-Identifier: Apache-2.0
// State of the collectives of a communicator: the collectives in flight, their numbers, and the agreement of the ranks on them.
//
// A collective has two phases. First the ranks compare what they have started (agreement.hpp). No value moves before this rank
// knows that all ranks have started the same collective. Then the values move. If ranks differ, they exchange descriptions of
// what they have started instead, and all throw the same AgreedError. The communicator continues with the next collective.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/agreement.hpp"
#include "comm/disagreement.hpp"
#include "comm/execution.hpp"
#include "comm/notice.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/immovable.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/base/own_process.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/operation.hpp"

namespace floodtide::comm {

enum class Phase {
  gathering,   ///< member of a group that was not started; no other rank knows of it
  agreeing,    ///< the ranks compare what they have started
  explaining,  ///< ranks differ, and exchange descriptions of what they have started
  moving,      ///< all ranks have started the same, and the values move
};

struct OperationState {
  std::int64_t number = 0;  ///< number of collectives that the communicator had before
  int ranks = 1;            ///< number of ranks of the communicator
  Notice notice;
  std::string words;  ///< the caller's description, which other ranks quote if ranks differ
  Phase phase = Phase::agreeing;
  Ballot ballot;
  int round = 0;                                            // next round of the agreement to receive
  std::unique_ptr<Execution> execution;                     // for our own algorithms
  std::function<std::unique_ptr<Request>()> start_library;  // for `mpi`: called when all ranks have started the collective
  std::unique_ptr<Request> library;
  AlignedBuffer<std::byte> scratch;
  std::vector<Account> accounts;
  std::vector<std::shared_ptr<OperationState>> members;  // for a group: members that are not done; they run in this order
  std::vector<Notice> notices;                           // for a group: notices of all members
  bool dropped = false;                                  // true: a member of a group that was not started; set before done
  std::optional<AgreedError> failure;                    // set before done
  std::atomic<bool> done = false;

  /// True if this rank still waits for messages after the agreement.
  [[nodiscard]] bool needs_messages() const { return (execution && !execution->done()) || library != nullptr; }
  /// Throws the failure of an operation that is done, if it has one.
  void require_success() const {
    if (dropped) raise(ErrorCode::communication, "group: was given up before it was started");
    if (failure) throw AgreedError(*failure);
  }
};

class Engine : Immovable {
 public:
  explicit Engine(Communicator& comm) : comm_(comm), messages_(comm) {}
  ~Engine();

  /// Starts a collective. `notice` says what it is, and `words` is the caller's description of the values. Both must be the
  /// same on all ranks (`words` sets notice.called). `next` returns further steps after those of the schedule (execution.hpp).
  /// With one rank, the operation is done at once.
  [[nodiscard]] Operation start(Notice notice, SharedSchedule schedule, const Payload& payload, std::string_view words = {},
                                NextStage next = {});
  /// Starts the transport's own allreduce.
  [[nodiscard]] Operation start_library(Notice notice, const ReduceBuffer& buffer, std::string_view words = {});
  /// Starts a collective without values: a barrier, or a service. A service announces further collectives, so that ranks that
  /// have joined can take part in them.
  [[nodiscard]] Operation start_empty(Collective collective, std::string_view words = {});

  /// Opens a group: the ranks compare all collectives that are started from now on at once. They do not begin before
  /// close_group(). Barriers and services are not members.
  void open_group();
  void close_group(std::string_view words);
  /// Drops the members of the open group. They are done, with an error.
  void drop_group();

  /// For join(): takes part in the agreement on the next collective, and returns its result. Throws AgreedError if the
  /// collectives of the other ranks differ, or need values of a rank that has joined.
  [[nodiscard]] Ballot await_others(std::int64_t joined_at);
  /// For join(): takes part, with these values, in the collective that await_others() returned.
  [[nodiscard]] Operation follow(const Ballot& agreed, SharedSchedule schedule, const Payload& payload);
  [[nodiscard]] Operation follow_library(const Ballot& agreed, const ReduceBuffer& buffer);
  [[nodiscard]] std::int64_t next_number() const noexcept { return next_number_; }

  bool progress();
  void wait(const OperationState& state);
  /// For the destructor of Operation: waits until the operation is done. If on_wait throws, abandons the operation. The next
  /// call on the communicator throws a failure.
  void complete(const OperationState& state) noexcept;
  /// Gives up all collectives in flight, unless this operation is done. Later calls on the communicator fail.
  void abandon(const OperationState& state) noexcept;
  /// Waits until no collective is in flight.
  void finish_all();
  [[nodiscard]] std::vector<std::string> pending() const;

  /// Return the schedule of an allreduce. Schedules are cached.
  [[nodiscard]] SharedSchedule allreduce_schedule(const AllreduceRow& row, std::int64_t count);

  /// While this object exists, collectives do not become members of the open group. Services use it.
  class GroupAside : Immovable {
   public:
    explicit GroupAside(Engine& engine) : engine_(engine), group_(std::exchange(engine.group_, {})) {}
    ~GroupAside() { engine_.group_ = std::move(group_); }

   private:
    Engine& engine_;
    std::optional<std::vector<std::shared_ptr<OperationState>>> group_;
  };

 private:
  template <class Prepare>
  Operation add(const Notice& notice, std::string_view words, Prepare&& prepare);
  template <class Prepare>
  Operation add_agreed(const Ballot& agreed, Prepare&& prepare);
  void prepare_own(OperationState& state, SharedSchedule schedule, const Payload& payload, NextStage next = {});
  void prepare_library(OperationState& state, const ReduceBuffer& buffer);
  void launch(const std::shared_ptr<OperationState>& state);
  void require_sound() const;
  void make_room();
  void wait_until(const std::function<bool()>& reached, const std::function<void()>& on_wait);
  void give_up(std::string_view reason) noexcept;
  [[noreturn]] void fail(const std::exception& exception);
  bool agree();
  void decide(OperationState& state);
  bool advance(OperationState& state);
  void explain(OperationState& state);
  void drop_done();
  [[nodiscard]] bool is_gathering(const OperationState& state) const;
  void tell_members(OperationState& group);
  bool advance_members(OperationState& group);
  [[nodiscard]] std::string waits_for(const OperationState& state) const;
  [[nodiscard]] AlignedBuffer<std::byte> borrow(std::size_t bytes);

  Communicator& comm_;
  OwnProcess process_;  // in its children, a thread that is not there may hold the mutex
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<OperationState>> active_;  // in the order of their numbers
  std::int64_t next_number_ = 0;
  std::string failure_;  // after a failure no collective can succeed, because messages of the failed one may still arrive
  Dissemination messages_;
  std::optional<std::vector<std::shared_ptr<OperationState>>> group_;  // members of the open group

  std::vector<AlignedBuffer<std::byte>> spare_;
  std::map<std::pair<const AllreduceRow*, std::int64_t>, SharedSchedule> schedules_;
};

}  // namespace floodtide::comm
