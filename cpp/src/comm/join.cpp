// SPDX-License-Identifier: Apache-2.0
// A rank without work of its own, without a coordinator. Whatever a rank starts it tells the next one (notice.hpp), and a rank
// that has joined waits for that notice, starts the same with values that change nothing, and so tells the next one again. To
// learn that nobody will start anything any more, rank 0, once it has joined, sends a notice of its own round before each
// wait: ranks that have joined pass it on, any other drops it, and when it comes back all have joined.
#include <limits>
#include <vector>

#include "comm/engine.hpp"
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
void allreduce_neutral(Communicator& comm, const Notice& notice) {
  std::vector<T> values(static_cast<std::size_t>(notice.count), neutral<T>(notice.op));
  const ReduceBuffer buffer{std::as_writable_bytes(std::span(values)).data(), notice.count, notice.type};
  allreduce(comm, buffer, notice.op,
            {.algorithm = allreduce_rows()[static_cast<std::size_t>(notice.algorithm)].name,
             .wire = notice.wire,
             .segment_bytes = static_cast<std::size_t>(notice.segment_bytes)});
}

void allreduce_neutral_of_type(Communicator& comm, const Notice& notice) {
  switch (notice.type) {
    case ElementType::float32: return allreduce_neutral<float>(comm, notice);
    case ElementType::float64: return allreduce_neutral<double>(comm, notice);
    case ElementType::int64: return allreduce_neutral<std::int64_t>(comm, notice);
  }
}

[[noreturn]] void refuse(const Communicator& comm, const Notice& notice) {
  raise(ErrorCode::unsupported, "rank ", comm.rank(), " has joined and has no values for ", describe(notice));
}

void take_part(Communicator& comm, const Notice& notice) {
  switch (notice.collective) {
    case Collective::allreduce: return allreduce_neutral_of_type(comm, notice);
    case Collective::barrier: return comm.barrier();
    case Collective::broadcast: {
      if (notice.detail == comm.rank()) refuse(comm, notice);
      std::vector<std::byte> ignored(static_cast<std::size_t>(notice.count));
      return broadcast(comm, ignored, static_cast<int>(notice.detail));
    }
    case Collective::measure: static_cast<void>(allreduce_table(comm)); return;
    case Collective::locate: static_cast<void>(comm.nodes()); return;
    case Collective::allgather:
    case Collective::reduce_scatter: refuse(comm, notice);
  }
}

bool later(const Notice& a, const Notice& b) {
  return a.joined_at != b.joined_at ? a.joined_at > b.joined_at : a.detail > b.detail;
}

}  // namespace

int join(Communicator& comm) {
  if (comm.size() == 1) return 0;
  Engine& engine = comm.engine();
  engine.finish_all();
  Notice own{.purpose = Purpose::joining, .detail = comm.rank(), .joined_at = engine.next_number()};
  for (bool told = false;;) {
    own.number = engine.next_number();
    if (comm.rank() == 0 && !told) engine.tell_next(own);
    told = true;
    Notice notice = engine.await_invitation();
    if (notice.purpose == Purpose::collective) {
      take_part(comm, notice);
      told = false;
      continue;
    }
    const bool all_joined = notice.purpose == Purpose::joined;
    if (comm.rank() == 0) {
      notice.purpose = Purpose::joined;
      if (!all_joined) engine.tell_next(notice);
    } else {
      if (!all_joined && later(own, notice)) {
        notice.detail = own.detail;
        notice.joined_at = own.joined_at;
      }
      engine.tell_next(notice);
    }
    if (all_joined) {
      engine.skip_number();
      engine.finish_all();
      return static_cast<int>(notice.detail);
    }
  }
}

}  // namespace floodtide::comm
