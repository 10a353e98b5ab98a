// SPDX-License-Identifier: Apache-2.0
// A rank without work of its own, without a coordinator. It takes part in the agreement that every collective begins with
// (agreement.hpp), and learns from its result what the others have started: it does the same with values that change nothing.
// When the result says that no rank has started anything, all have joined.
#include <limits>
#include <vector>

#include "comm/allreduce/table.hpp"
#include "comm/engine.hpp"
#include "comm/schedules.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::comm {
namespace {

/// What changes no result of an operation.
template <class T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  if (op == ReduceOp::sum) return T{0};
  if constexpr (Limits::has_infinity) return op == ReduceOp::min ? Limits::infinity() : -Limits::infinity();
  return op == ReduceOp::min ? Limits::max() : Limits::lowest();
}

template <class T>
void allreduce_neutral(Communicator& comm, const Ballot& agreed) {
  const Notice& notice = agreed.notice();
  Engine& engine = comm.engine();
  std::vector<T> values(static_cast<std::size_t>(notice.count), neutral<T>(notice.op));
  const ReduceBuffer buffer{std::as_writable_bytes(std::span(values)).data(), notice.count, notice.type};
  const AllreduceRow& row = allreduce_rows()[static_cast<std::size_t>(notice.algorithm)];
  if (row.schedule == nullptr) return engine.follow_library(agreed, buffer).wait();
  const Payload payload{buffer.data, element_bytes(notice.type), notice.type, notice.op, notice.wire};
  engine.follow(agreed, engine.allreduce_schedule(row, notice.count), payload).wait();
}

void allreduce_neutral_of_type(Communicator& comm, const Ballot& agreed) {
  switch (agreed.notice().type) {
    case ElementType::float32: return allreduce_neutral<float>(comm, agreed);
    case ElementType::float64: return allreduce_neutral<double>(comm, agreed);
    case ElementType::int64: return allreduce_neutral<std::int64_t>(comm, agreed);
  }
}

void follow_broadcast(Communicator& comm, const Ballot& agreed) {
  const Notice& notice = agreed.notice();
  std::vector<std::byte> ignored(static_cast<std::size_t>(notice.count));
  auto schedule = std::make_shared<const Schedule>(binomial_tree(comm, notice.count, notice.root));
  comm.engine().follow(agreed, std::move(schedule), {.data = ignored.data()}).wait();
}

/// Does what the others have started: of those collectives that can be joined.
void take_part(Communicator& comm, const Ballot& agreed) {
  switch (agreed.notice().collective) {
    case Collective::allreduce: return allreduce_neutral_of_type(comm, agreed);
    case Collective::broadcast: return follow_broadcast(comm, agreed);
    case Collective::measure: comm.engine().table() = measured_table(comm); return;
    case Collective::locate: return comm.locate();
    default: return;
  }
}

}  // namespace

int join(Communicator& comm) {
  if (comm.size() == 1) return 0;
  Engine& engine = comm.engine();
  engine.finish_all();
  const std::int64_t joined_at = engine.next_number();
  while (true) {
    const Ballot agreed = engine.await_others(joined_at);
    if (agreed.all_joined()) return agreed.last_to_join();
    take_part(comm, agreed);
  }
}

}  // namespace floodtide::comm
