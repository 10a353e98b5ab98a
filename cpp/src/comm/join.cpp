// SPDX-License-Identifier: Apache-2.0
// join(): a rank without work takes part in the collectives of other ranks. There is no coordinator.
//
// The rank takes part in the agreement at the begin of every collective (agreement.hpp). The result of the agreement says what
// the other ranks have started. The rank then takes part with values that do not change the result. If the agreement says that
// no rank has started a collective, all ranks have joined.
#include <vector>

#include "comm/access.hpp"
#include "comm/engine.hpp"
#include "comm/reduce/reduce.hpp"
#include "comm/schedules.hpp"
#include "floodtide/base/memory.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::comm {
namespace {

/// Takes part in an allreduce with values that do not change the result.
void follow_allreduce(Communicator& comm, const Ballot& agreed) {
  const Notice& notice = agreed.notice();
  Engine& engine = engine_of(comm);
  AlignedBuffer<std::byte> values(notice.count * static_cast<std::int64_t>(element_bytes(notice.type)));
  const ReduceBuffer buffer{values.data(), notice.count, notice.type};
  fill_neutral(buffer, notice.op);
  const AllreduceRow& row = allreduce_rows()[static_cast<std::size_t>(notice.algorithm)];
  if (row.schedule == nullptr) return engine.follow_library(agreed, buffer).wait();
  const Payload payload = Payload::of(buffer, notice.op, notice.wire);
  engine.follow(agreed, engine.allreduce_schedule(row, notice.count), payload).wait();
}

void follow_broadcast(Communicator& comm, const Ballot& agreed) {
  const Notice& notice = agreed.notice();
  std::vector<std::byte> ignored(static_cast<std::size_t>(notice.count));
  engine_of(comm).follow(agreed, binomial_tree(comm, notice.count, notice.root), {.data = ignored.data()}).wait();
}

/// Takes part in the members of a group, one after another. The other ranks first send a list of the members.
void follow_group(Communicator& comm, const Ballot& agreed) {
  std::vector<Notice> members(static_cast<std::size_t>(agreed.notice().count));
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(members));
  engine_of(comm).follow(agreed, binomial_tree(comm, std::ssize(bytes), agreed.caller()), {.data = bytes.data()}).wait();
  for (const Notice& member : members) follow_allreduce(comm, agreed.about(member));
}

/// Takes part in what the other ranks have started. It is a collective that can be joined (can_be_joined).
void take_part(Communicator& comm, const Ballot& agreed) {
  switch (agreed.notice().collective) {
    case Collective::allreduce: return follow_allreduce(comm, agreed);
    case Collective::broadcast: return follow_broadcast(comm, agreed);
    case Collective::group: return follow_group(comm, agreed);
    case Collective::locate: return CommunicatorAccess::locate(comm);
    default: return;
  }
}

}  // namespace

int join(Communicator& comm) {
  if (comm.size() == 1) return 0;
  Engine& engine = engine_of(comm);
  engine.finish_all();
  const std::int64_t joined_at = engine.next_number();
  while (true) {
    const Ballot agreed = engine.await_others(joined_at);
    if (agreed.all_joined()) return agreed.last_to_join();
    take_part(comm, agreed);
  }
}

}  // namespace floodtide::comm
