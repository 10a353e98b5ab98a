// SPDX-License-Identifier: Apache-2.0
// Recursive halving and doubling (Rabenseifner, ICCS 2004; Thakur, Rabenseifner & Gropp, IJHPCA 19 (2005)).
//
// Reduce-scatter: in each round, two partners split the range that they still sum. Each sends one half, and continues with the
// other half. Allgather: the same rounds in reverse order. Partners first differ in the lowest bit of their numbers. The
// longest messages therefore go to near ranks, and the sums are those of recursive doubling, bit for bit.
//
// With p = 2^k + r ranks, the first 2 r ranks form pairs. Each pair acts as one of 2^k members. The even rank of a pair sums
// the lower half of the array for both ranks, and the odd rank the upper half. In the first round, a member sends one half and
// keeps the other. In a pair, the rank that holds the sent half sends it and waits for the result, while the other rank
// continues. At the end, the two ranks exchange their halves of the result. Whole arrays are never sent.
#include <bit>
#include <numeric>
#include <vector>

#include "comm/allreduce/steps.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {
namespace {

Range half_of(const Range& range, int upper) {
  const std::int64_t middle = range.begin + (range.size() + 1) / 2;
  return upper == 0 ? Range{range.begin, middle} : Range{middle, range.end};
}

class Rabenseifner {
 public:
  Rabenseifner(MessageSchedule& schedule, const Group& group, const Range& range)
      : schedule_(schedule),
        group_(group),
        range_(range),
        members_(static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size())))),
        pairs_(group.size() - members_),
        paired_(group.own < 2 * pairs_),
        member_(paired_ ? group.own / 2 : group.own - pairs_),
        kept_(member_ % 2) {}

  void append() {
    if (paired_) exchange_in_pair(true);
    first_round(true);
    if (holds(kept_)) halve(half_of(range_, kept_), 2);
    first_round(false);
    if (paired_) exchange_in_pair(false);
  }

 private:
  /// True if this rank works on this half of the array (0: lower, 1: upper).
  [[nodiscard]] bool holds(int upper) const { return !paired_ || group_.own % 2 == upper; }

  /// Return the rank that works on a half for a member.
  [[nodiscard]] int holder(int member, int upper) const {
    return group_.rank(member < pairs_ ? 2 * member + upper : member + pairs_);
  }

  /// Exchanges halves in a pair. Before the reduction, the even rank receives the lower half and the odd rank the upper half.
  /// After the reduction, each rank sends the half of the result that it has.
  void exchange_in_pair(bool reduce) {
    const int mine = group_.own % 2;
    const int other = group_.rank(group_.own ^ 1);
    add_step(schedule_, {.send_to = other,
                         .sent = half_of(range_, reduce ? 1 - mine : mine),
                         .receive_from = other,
                         .received = half_of(range_, reduce ? mine : 1 - mine),
                         .reduce = reduce,
                         .arriving_first = reduce && mine == 1,
                         .keep = !reduce});
  }

  /// Members whose numbers differ in the lowest bit exchange halves of the array.
  void first_round(bool reduce) {
    const int partner = member_ ^ 1;
    const int sent = reduce ? 1 - kept_ : kept_;
    MessageStep step{.sent = half_of(range_, sent),
                     .received = half_of(range_, 1 - sent),
                     .reduce = reduce,
                     .arriving_first = reduce && kept_ == 1,
                     .keep = !reduce};
    if (holds(sent)) step.send_to = holder(partner, sent);
    if (holds(1 - sent)) step.receive_from = holder(partner, 1 - sent);
    add_step(schedule_, step);
  }

  /// Appends the further rounds of both phases. Only this rank works on `range` for its member.
  void halve(const Range& range, int bit) {
    if (bit >= members_) return;
    const int partner = holder(member_ ^ bit, kept_);
    const int upper = (member_ & bit) != 0 ? 1 : 0;
    const Range own = half_of(range, upper);
    const Range others = half_of(range, 1 - upper);
    add_step(schedule_, {.send_to = partner,
                         .sent = others,
                         .receive_from = partner,
                         .received = own,
                         .reduce = true,
                         .arriving_first = upper == 1});
    halve(own, 2 * bit);
    add_step(schedule_, {.send_to = partner, .sent = own, .receive_from = partner, .received = others, .keep = true});
  }

  MessageSchedule& schedule_;
  Group group_;
  Range range_;
  int members_;  // a power of two; a member is a rank or a pair of ranks
  int pairs_;
  bool paired_;
  int member_;
  int kept_;  // the half of the array that this member keeps in the first round
};

MessageSchedule schedule(const RankPlace& place, std::int64_t count) {
  std::vector<int> ranks(static_cast<std::size_t>(place.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  MessageSchedule plan;
  append_rabenseifner(plan, {ranks, place.rank}, {0, count});
  return plan;
}

}  // namespace

void append_rabenseifner(MessageSchedule& schedule, const Group& group, const Range& range) {
  if (group.size() > 1 && !range.empty()) Rabenseifner(schedule, group, range).append();
}

extern const AllreduceRow kRabenseifner = {
    .name = "rabenseifner", .help = "recursive halving and doubling; fewest bytes in few steps", .schedule = &schedule};

}  // namespace floodtide::comm
