// SPDX-License-Identifier: Apache-2.0
// Recursive doubling: in round k, ranks whose numbers differ in bit k exchange whole arrays and add them. Both compute the same
// sum from the same operands in the same order (the values of the lower rank first), so that all ranks hold the same bits.
//
// With p = 2^k + r ranks, the first 2 r ranks form pairs. The even rank sends its values to the odd rank, which takes part for
// both and sends the result back.
#include <bit>

#include "comm/allreduce/steps.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {
namespace {

MessageSchedule schedule(const RankPlace& place, std::int64_t count) {
  const Range all{0, count};
  const int survivors = static_cast<int>(std::bit_floor(static_cast<unsigned>(place.size)));
  const int pairs = place.size - survivors;
  const auto rank_of = [&](int survivor) { return survivor < pairs ? 2 * survivor + 1 : survivor + pairs; };

  MessageSchedule plan;
  if (place.rank < 2 * pairs && place.rank % 2 == 0) {
    add_step(plan, {.send_to = place.rank + 1, .sent = all});
    add_step(plan, {.receive_from = place.rank + 1, .received = all});
    return plan;
  }
  const bool paired = place.rank < 2 * pairs;
  const int own = paired ? place.rank / 2 : place.rank - pairs;
  if (paired) {
    add_step(plan, {.receive_from = place.rank - 1, .received = all, .reduce = true, .arriving_first = true});
  }
  for (int bit = 1; bit < survivors; bit *= 2) {
    const int partner = own ^ bit;
    add_step(plan, {.send_to = rank_of(partner),
                    .sent = all,
                    .receive_from = rank_of(partner),
                    .received = all,
                    .reduce = true,
                    .arriving_first = partner < own,
                    .keep = true});
  }
  // A narrow wire format rounds the results that go back to the even ranks. All other ranks must round their results too, also
  // those that do not belong to a pair and send nothing.
  if (pairs > 0) {
    MessageStep last{.sent = all, .keep = true};
    if (paired) last.send_to = place.rank - 1;
    if (!all.empty()) plan.steps.push_back(last);
  }
  return plan;
}

}  // namespace

extern const AllreduceRow kRecursiveDoubling = {
    .name = "recursive_doubling", .help = "ranks exchange whole arrays; fewest steps; for short arrays", .schedule = &schedule};

}  // namespace floodtide::comm
