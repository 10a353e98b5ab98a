// SPDX-License-Identifier: Apache-2.0
// What a communicator keeps for its collectives: those in flight, their numbers, and the notices about them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
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

#include "comm/execution.hpp"
#include "comm/notice.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/comm/operation.hpp"

namespace floodtide::comm {

struct OperationState {
  Notice notice;
  std::unique_ptr<Execution> execution;  // our own algorithms
  std::unique_ptr<Request> library;      // or the library's
  AlignedBuffer<std::byte> scratch;
  std::atomic<bool> done = false;

  /// Whether values have still to travel.
  [[nodiscard]] bool needs_messages() const { return execution ? !execution->done() : library != nullptr; }
};

class Engine {
 public:
  explicit Engine(Communicator& comm) : comm_(comm) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  Engine(Engine&&) = delete;
  Engine& operator=(Engine&&) = delete;
  ~Engine();

  /// Starts a collective: `notice` says what it is (its number is set here). One rank: nothing to do.
  [[nodiscard]] Operation start(const Notice& notice, std::shared_ptr<const Schedule> schedule, const Payload& payload);
  /// The same by the transport's own allreduce.
  [[nodiscard]] Operation start_library(const Notice& notice, const ReduceBuffer& buffer);

  /// Announces a service that all ranks then do by further collectives: ranks that have joined take part in it.
  [[nodiscard]] Operation start_service(Collective service);

  bool progress();
  void wait(const OperationState& state);
  /// What Operation's destructor needs: waits without on_wait; failures are kept for the next call.
  void complete(const OperationState& state) noexcept;
  /// Returns when nothing is in flight.
  void finish_all();
  [[nodiscard]] std::vector<std::string> pending() const;

  /// The schedule of an allreduce, made when it is first needed.
  [[nodiscard]] std::shared_ptr<const Schedule> allreduce_schedule(const AllreduceRow& row, std::int64_t count);
  [[nodiscard]] std::optional<AllreduceTable>& table() noexcept { return table_; }

  /// For join(): tells the others that this rank waits, and returns the next notice about anything (the caller takes part in
  /// what it announces: the next collective started here is not compared again).
  [[nodiscard]] Notice await_invitation();
  void tell_next(const Notice& notice);
  [[nodiscard]] std::int64_t next_number() const noexcept { return next_number_; }
  void skip_number() noexcept { ++next_number_; }

 private:
  struct Outgoing {
    Notice notice;
    std::unique_ptr<Request> request;
  };

  template <class Prepare>
  Operation add(Notice notice, Prepare&& prepare);
  void require_sound() const;
  void wait_until(const std::function<bool()>& reached, const std::function<void()>& on_wait);
  void give_up(const std::string& reason);
  void abandon(const OperationState& state);
  void send_notice(const Notice& notice);
  void drop_sent_notices();
  [[noreturn]] void fail(std::string reason);
  bool advance(OperationState& state);
  [[nodiscard]] std::string compare_notices(bool& out_moved);
  [[nodiscard]] bool receive_notice();
  [[nodiscard]] int before() const { return (comm_.rank() + comm_.size() - 1) % comm_.size(); }
  [[nodiscard]] AlignedBuffer<std::byte> borrow(std::size_t bytes);

  Communicator& comm_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<OperationState>> active_;
  std::int64_t next_number_ = 0;
  std::string failure_;  // after it no collective can succeed: messages of the failed one may be under way

  std::deque<Outgoing> outgoing_;
  std::deque<Notice> unconfirmed_;  // started here; the rank before has not told yet
  Notice incoming_;
  std::unique_ptr<Request> arrival_;  // of incoming_
  bool invited_ = false;              // incoming_ is about the collective that is started next
  unsigned passes_ = 0;

  std::vector<AlignedBuffer<std::byte>> spare_;
  std::map<std::pair<const AllreduceRow*, std::int64_t>, std::shared_ptr<const Schedule>> schedules_;
  std::optional<AllreduceTable> table_;
};

}  // namespace floodtide::comm
