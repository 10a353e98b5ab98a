// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "floodtide/base/immovable.hpp"

namespace floodtide::comm {

class Communicator;
class Engine;
struct OperationState;

/// A collective that was started and may not be done yet.
///
/// The ranks first compare what they have started. No value moves before this rank knows that all ranks have started the same
/// collective. An operation advances only while this rank calls test(), wait() or progress(). Each of these drives all
/// operations on the communicator, so that every rank may wait for its operations in any order.
///
/// The array must stay alive and untouched until the operation is done. The destructor waits until the operation is done, and
/// calls the communicator's on_wait meanwhile. If on_wait throws, or if an exception is unwinding the stack, the destructor
/// abandons the operation instead, and later calls on the communicator fail. The communicator must outlive its operations.
///
/// Two threads may drive operations of one communicator at the same time. Only one thread at a time may start collectives, in
/// the same order on all ranks.
class Operation {
 public:
  Operation() noexcept = default;  ///< an operation that is done
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  Operation(Operation&& other) noexcept = default;
  Operation& operator=(Operation&& other) noexcept;
  ~Operation();

  /// True if the operation is done.
  ///
  /// Throws AgreedError if the ranks have started different collectives; other operations and the communicator are not
  /// affected. Throws Error(communication) if a message of any collective on this communicator failed; the communicator cannot
  /// be used any more then.
  [[nodiscard]] bool test();
  /// Wait until the operation is done, and call the communicator's on_wait meanwhile. Throws what test() and on_wait throw.
  void wait();
  /// Return how many ranks contributed values to an operation that is done. The other ranks have joined (collectives.hpp).
  [[nodiscard]] int contributors() const;
  /// Give up the operation without waiting. Unless it is done, later calls on the communicator fail.
  void abandon() noexcept;

 private:
  friend class Engine;
  Operation(Engine& engine, std::shared_ptr<OperationState> state) noexcept : engine_(&engine), state_(std::move(state)) {}
  void complete() noexcept;

  Engine* engine_ = nullptr;
  std::shared_ptr<OperationState> state_;
};

/// Several collectives that the ranks compare as one.
///
/// Collectives that are started while the group is open become its members, except barriers. No member begins before start().
/// Members run one after another. If ranks differ in the number of members or in any member, every member throws the same
/// AgreedError on every rank. Ranks that have joined (collectives.hpp) can take part in a group of allreduces only.
class OperationGroup : Immovable {
 public:
  /// Opens a group. Throws Error(invalid_argument) if a group is open on the communicator.
  explicit OperationGroup(Communicator& comm);
  ~OperationGroup();  ///< calls drop()

  /// Starts all members. Call this once. `words` describes the whole group, as in AllreduceOptions.
  void start(std::string_view words = {});
  /// Drops all members: their test() and wait() throw. Does nothing after start().
  void drop();

 private:
  Engine* engine_;
};

/// Drive all operations on a communicator, without waiting. True if an operation advanced.
bool progress(Communicator& comm);

}  // namespace floodtide::comm
