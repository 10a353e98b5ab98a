// SPDX-License-Identifier: Apache-2.0
// Ring allreduce (Patarasuk & Yuan, J. Parallel Distrib. Comput. 69 (2009), sec. 4). The array is split into one chunk per
// rank.
//
// Reduce-scatter: in step s, rank r sends chunk r - s to rank r + 1, and adds the values that it receives to chunk r - s - 1.
// Chunk c is therefore always summed in the order of ranks c, c + 1, ..., c - 1. Allgather: the finished chunks go round once
// more. The executor splits chunks into segments, so that the next segment arrives while one is added.
#include "comm/allreduce/steps.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {
namespace {

/// Return the steps of a rank: it has 2 (p - 1) steps and sends 2 n (p - 1) / p bytes.
MessageSchedule schedule(const RankPlace& place, std::int64_t count) {
  const int size = place.size;
  const int next = (place.rank + 1) % size;
  const int previous = (place.rank + size - 1) % size;
  const auto chunk = [&](int number) { return chunk_range(count, size, (number + 2 * size) % size); };
  MessageSchedule plan;
  for (const bool reduce : {true, false}) {
    const int first = place.rank + (reduce ? 0 : 1);  // the chunk that this rank sends first
    for (int step = 0; step + 1 < size; ++step) {
      add_step(plan, {.send_to = next,
                      .sent = chunk(first - step),
                      .receive_from = previous,
                      .received = chunk(first - 1 - step),
                      .reduce = reduce,
                      .keep = !reduce});
    }
  }
  return plan;
}

}  // namespace

extern const AllreduceRow kRing = {.name = "ring",
                                   .help = "chunks go around all ranks; fewest bytes, most steps; for long arrays on few ranks",
                                   .schedule = &schedule};

}  // namespace floodtide::comm
