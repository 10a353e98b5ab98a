// SPDX-License-Identifier: Apache-2.0
// Groups: several collectives that the ranks compare as one. All ranks therefore learn at once if they differ in the number of
// members or in a member. Otherwise ranks with different numbers of members would number all later collectives differently.
#include <algorithm>
#include <utility>

#include "comm/access.hpp"
#include "comm/engine.hpp"
#include "comm/schedules.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::comm {

void Engine::open_group() {
  if (comm_.size() == 1) return;
  require_own_process(process_);
  const std::lock_guard lock(mutex_);
  FLOODTIDE_REQUIRE(!group_, invalid_argument, "group: there is an open one, expected it to be started first");
  group_.emplace();
}

void Engine::close_group(std::string_view words) {
  if (comm_.size() == 1) return;
  make_room();
  const std::lock_guard lock(mutex_);
  FLOODTIDE_REQUIRE(group_, invalid_argument, "group: there is no open one");
  auto members = *std::exchange(group_, {});
  require_sound();
  if (members.empty()) return;
  auto state = members.front();
  for (const auto& member : members) member->phase = Phase::agreeing;
  if (members.size() > 1) {
    state = std::make_shared<OperationState>();
    state->ranks = comm_.size();
    for (const auto& member : members) state->notices.push_back(member->notice);
    const auto bytes = std::as_bytes(std::span(state->notices));
    const auto is_allreduce = [](const Notice& notice) { return notice.collective == Collective::allreduce; };
    state->notice = {.collective = Collective::group,
                     .algorithm = std::ranges::all_of(state->notices, is_allreduce) ? 0 : -1,
                     .count = std::ssize(members),
                     .blocks = notice_hash(bytes)};
    state->members = std::move(members);
    for (const auto& member : state->members) {
      if (member->execution) member->execution->use_tag(operation_tag(next_number_));
    }
  }
  state->number = next_number_++;
  state->words = words;
  state->notice.called = notice_hash(std::as_bytes(std::span(words)));
  state->ballot = Ballot::of_caller(state->number, state->notice, comm_.rank(), comm_.size());
  launch(state);
}

void Engine::drop_group() {
  if (!process_.is_here()) return;
  const std::lock_guard lock(mutex_);
  if (!group_) return;
  for (const auto& member : *group_) {
    member->dropped = true;
    member->done = true;
  }
  group_.reset();
}

bool Engine::is_gathering(const OperationState& state) const {
  const std::lock_guard lock(mutex_);
  return state.phase == Phase::gathering && !state.done;
}

/// Sends the list of the members to the ranks that have joined.
void Engine::tell_members(OperationState& group) {
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(group.notices));
  prepare_own(group, binomial_tree(comm_, std::ssize(bytes), group.ballot.caller()), {.data = bytes.data()});
}

/// Advances the members of a group one after another, because they share the group's tags. Finished members leave the group.
bool Engine::advance_members(OperationState& group) {
  bool moved = false;
  while (!group.members.empty()) {
    OperationState& first = *group.members.front();
    if (group.failure) {
      first.failure = group.failure;
      first.execution.reset();
      first.start_library = {};
      first.done = true;
    } else {
      moved = advance(first) || moved;
      if (!first.done) break;
    }
    group.members.erase(group.members.begin());
  }
  return moved;
}

OperationGroup::OperationGroup(Communicator& comm) : engine_(&engine_of(comm)) { engine_->open_group(); }

OperationGroup::~OperationGroup() { drop(); }

void OperationGroup::start(std::string_view words) {
  FLOODTIDE_REQUIRE(engine_ != nullptr, invalid_argument, "group: there is no open one");
  std::exchange(engine_, nullptr)->close_group(words);
}

void OperationGroup::drop() {
  if (engine_ != nullptr) std::exchange(engine_, nullptr)->drop_group();
}

}  // namespace floodtide::comm
