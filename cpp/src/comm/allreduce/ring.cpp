// SPDX-License-Identifier: Apache-2.0
// Ring allreduce (Patarasuk & Yuan, J. Parallel Distrib. Comput. 69 (2009), sec. 4). The array is split into one chunk per
// rank.
//
// Reduce-scatter: in step s, rank r sends chunk r - s to rank r + 1, and adds the values that it receives to chunk r - s - 1.
// Chunk c is therefore always summed in the order of ranks c, c + 1, ..., c - 1. Allgather: the finished chunks go round once
// more. The executor splits chunks into segments, so that the next segment arrives while one is added.
#include "comm/schedules.hpp"
#include "floodtide/comm/allreduce.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::comm {
namespace {

/// Return the steps of a rank: it has 2 (p - 1) steps and sends 2 n (p - 1) / p bytes.
MessageSchedule schedule(const RankPlace& place, std::int64_t count) {
  const std::vector<std::int64_t> chunks = even_blocks(count, place.size);
  MessageSchedule plan = *ring_phase(place, chunks, 0, true);
  const SharedSchedule allgather = ring_phase(place, chunks, -1, false);
  plan.steps.insert(plan.steps.end(), allgather->steps.begin(), allgather->steps.end());
  return plan;
}

}  // namespace

extern const AllreduceRow kRing = {.name = "ring",
                                   .help = "chunks go around all ranks; fewest bytes, most steps; for long arrays on few ranks",
                                   .schedule = &schedule};

}  // namespace floodtide::comm
