// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

namespace floodtide::comm {

class Communicator;
class Engine;
struct OperationState;

/// A collective under way. First the ranks compare what they have started; no value moves before this rank knows that all have
/// started the same. It moves when a rank of it calls test(), wait() or progress(): each drives everything that is in
/// flight on the communicator, so operations may be completed in any order, another one on every rank. Its array must stay
/// alive and untouched until it is done. The destructor completes it; while an exception unwinds it is given up instead, and
/// later calls on the communicator fail. Two threads may drive operations of one communicator at a time; collectives are
/// started by one thread at a time, in the same order on all ranks. The communicator outlives its operations.
class Operation {
 public:
  Operation() noexcept = default;  ///< one that is done
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  Operation(Operation&& other) noexcept = default;
  Operation& operator=(Operation&& other) noexcept;
  ~Operation();

  /// True when it is done. Throws AgreedError when the ranks have started different collectives; other operations and the
  /// communicator are not affected. Throws Error(communication) when a message failed, here or in another collective on this
  /// communicator, which cannot be used further then.
  [[nodiscard]] bool test();
  /// Returns when it is done; calls the communicator's on_wait meanwhile. Throws what test() and on_wait throw.
  void wait();
  /// Of an operation that is done: how many ranks had values for it; the others have joined (collectives.hpp).
  [[nodiscard]] int contributors() const;
  /// Does not wait for it any more: unless it is done, later calls on the communicator fail.
  void abandon() noexcept;

 private:
  friend class Engine;
  Operation(Engine& engine, std::shared_ptr<OperationState> state) noexcept : engine_(&engine), state_(std::move(state)) {}
  void complete() noexcept;

  Engine* engine_ = nullptr;
  std::shared_ptr<OperationState> state_;
};

/// Collectives that the ranks compare as one: none of those started while it is open begins before start(). Where ranks differ
/// in their number or in any of them, every rank throws the same AgreedError from all of them. They are under way one after
/// another. Several at once can be joined (collectives.hpp) if all are allreduces. Barriers are not part of it.
class OperationGroup {
 public:
  /// Throws Error(invalid_argument) if there is an open one on the communicator.
  explicit OperationGroup(Communicator& comm);
  OperationGroup(const OperationGroup&) = delete;
  OperationGroup& operator=(const OperationGroup&) = delete;
  OperationGroup(OperationGroup&&) = delete;
  OperationGroup& operator=(OperationGroup&&) = delete;
  ~OperationGroup();  ///< forgets what was started, unless start() was called

  /// Once: starts what was started since the group was made. `words` describes all of it, as in AllreduceOptions.
  void start(std::string_view words = {});
  /// Forgets what was started, which throws when it is asked for. Does nothing after start().
  void drop();

 private:
  Engine* engine_;
};

/// Drives everything in flight on a communicator, without waiting. True if something moved.
bool progress(Communicator& comm);

}  // namespace floodtide::comm
