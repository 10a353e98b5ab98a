// SPDX-License-Identifier: Apache-2.0
// What a communicator keeps for its collectives: those in flight, their numbers, and what the ranks agree on about them.
//
// A collective has two phases. First the ranks compare what they have started (agreement.hpp): no value moves, and nothing is
// returned, before this rank knows that all have started the same. Then its values move. If ranks differ, they tell each other
// what they have started instead, all throw the same AgreedError, and the communicator goes on with the next number.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/agreement.hpp"
#include "comm/disagreement.hpp"
#include "comm/execution.hpp"
#include "comm/notice.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/comm/collectives.hpp"
#include "floodtide/comm/operation.hpp"

namespace floodtide::comm {

enum class Phase {
  gathering,   ///< part of a group that is not complete: no other rank knows of it
  agreeing,    ///< no rank has moved a value
  explaining,  ///< ranks differ: their accounts travel
  moving,      ///< all ranks have started the same: its values travel
};

struct OperationState {
  std::int64_t number = 0;  ///< how many collectives the communicator has had before
  int ranks = 1;            ///< of the communicator
  Notice notice;
  std::string words;  ///< the caller's, for the others if ranks differ
  Phase phase = Phase::agreeing;
  Ballot ballot;
  int round = 0;                                            // of the agreement, the next to hear
  std::unique_ptr<Execution> execution;                     // our own algorithms
  std::function<std::unique_ptr<Request>()> start_library;  // or the library's: called when all ranks have started it
  std::unique_ptr<Request> library;
  AlignedBuffer<std::byte> scratch;
  std::vector<Account> accounts;
  std::vector<std::shared_ptr<OperationState>> members;  // of a group: under way one after another
  std::vector<Notice> notices;                           // and what they are
  std::optional<AgreedError> failure;                    // set before done
  std::atomic<bool> done = false;

  /// Whether messages are missing, after the agreement.
  [[nodiscard]] bool needs_messages() const { return (execution && !execution->done()) || library != nullptr; }
  /// Throws the failure, if any, of an operation that is done.
  void require_success() const {
    if (failure) throw AgreedError(*failure);
  }
};

class Engine {
 public:
  explicit Engine(Communicator& comm) : comm_(comm), messages_(comm) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  Engine(Engine&&) = delete;
  Engine& operator=(Engine&&) = delete;
  ~Engine();

  /// Starts a collective. `notice` says what it is, and `words` how its caller describes the values: both must be the same on
  /// all ranks (`words` sets notice.called). `next` gives further steps once those of the schedule are done (execution.hpp).
  /// One rank: nothing to do.
  [[nodiscard]] Operation start(Notice notice, std::shared_ptr<const MessageSchedule> schedule, const Payload& payload,
                                std::string_view words = {}, NextStage next = {});
  /// The same by the transport's own allreduce.
  [[nodiscard]] Operation start_library(Notice notice, const ReduceBuffer& buffer, std::string_view words = {});
  /// Starts a collective without values: a barrier, or a service that all ranks then do by further collectives, so that ranks
  /// that have joined take part in it.
  [[nodiscard]] Operation start_empty(Collective collective, std::string_view words = {});

  /// What is started from now on is one collective for the ranks: they compare all of it at once. Nothing of it begins before
  /// close_group(). Barriers and services are not part of it.
  void open_group();
  void close_group(std::string_view words);
  /// Forgets what was started since open_group(): it is done, with an error.
  void drop_group();

  /// For join(): takes part in the agreement about the next collective, and returns what all ranks know then. Throws
  /// AgreedError if the others' collectives differ, or need values of a rank that has joined.
  [[nodiscard]] Ballot await_others(std::int64_t joined_at);
  /// For join(): takes part in what await_others() returned, with these values.
  [[nodiscard]] Operation follow(const Ballot& agreed, std::shared_ptr<const MessageSchedule> schedule, const Payload& payload);
  [[nodiscard]] Operation follow_library(const Ballot& agreed, const ReduceBuffer& buffer);
  [[nodiscard]] std::int64_t next_number() const noexcept { return next_number_; }

  bool progress();
  void wait(const OperationState& state);
  /// What Operation's destructor needs: waits without on_wait; failures are kept for the next call.
  void complete(const OperationState& state) noexcept;
  /// Gives up everything in flight unless this operation is done: later calls on the communicator fail.
  void abandon(const OperationState& state);
  /// Returns when nothing is in flight.
  void finish_all();
  [[nodiscard]] std::vector<std::string> pending() const;

  /// The schedule of an allreduce, made when it is first needed.
  [[nodiscard]] std::shared_ptr<const MessageSchedule> allreduce_schedule(const AllreduceRow& row, std::int64_t count);
  [[nodiscard]] std::optional<AllreduceTable>& table() noexcept { return table_; }

  /// Collectives of a service do not become part of a group that is open, while this lives.
  class GroupAside {
   public:
    explicit GroupAside(Engine& engine) : engine_(engine), group_(std::exchange(engine.group_, {})) {}
    GroupAside(const GroupAside&) = delete;
    GroupAside& operator=(const GroupAside&) = delete;
    GroupAside(GroupAside&&) = delete;
    GroupAside& operator=(GroupAside&&) = delete;
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
  void prepare_own(OperationState& state, std::shared_ptr<const MessageSchedule> schedule, const Payload& payload,
                   NextStage next = {});
  void prepare_library(OperationState& state, const ReduceBuffer& buffer);
  void launch(const std::shared_ptr<OperationState>& state);
  void require_sound() const;
  void require_room() const;
  void wait_until(const std::function<bool()>& reached, const std::function<void()>& on_wait);
  void give_up(const std::string& reason);
  [[noreturn]] void fail(const std::string& reason);
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
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<OperationState>> active_;  // by number
  std::int64_t next_number_ = 0;
  std::string failure_;  // after it no collective can succeed: messages of the failed one may be under way
  Dissemination messages_;
  std::optional<std::vector<std::shared_ptr<OperationState>>> group_;  // that is open

  std::vector<AlignedBuffer<std::byte>> spare_;
  std::map<std::pair<const AllreduceRow*, std::int64_t>, std::shared_ptr<const MessageSchedule>> schedules_;
  std::optional<AllreduceTable> table_;
};

}  // namespace floodtide::comm
