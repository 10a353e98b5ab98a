// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/clock_offset.hpp"

#include <limits>
#include <span>

#include "floodtide/base/clock.hpp"

namespace floodtide::comm {
namespace {

constexpr int kTag = 3;
constexpr int kExchanges = 20;

}  // namespace

std::int64_t clock_offset_ns(Communicator& comm) {
  std::int64_t time = 0;
  const auto bytes = std::as_writable_bytes(std::span(&time, 1));
  if (comm.rank() == 0) {
    for (int rank = 1; rank < comm.size(); ++rank) {
      for (int exchange = 0; exchange < kExchanges; ++exchange) {
        comm.receive(rank, kTag, bytes)->wait();
        time = now_ns();
        comm.send(rank, kTag, bytes)->wait();
      }
    }
    return 0;
  }
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max(), offset = 0;
  for (int exchange = 0; exchange < kExchanges; ++exchange) {
    const std::int64_t start = now_ns();
    comm.send(0, kTag, bytes)->wait();
    comm.receive(0, kTag, bytes)->wait();
    const std::int64_t end = now_ns();
    if (end - start >= fastest) continue;
    fastest = end - start;
    offset = time - (start + (end - start) / 2);
  }
  return offset;
}

}  // namespace floodtide::comm
