// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/schedule.hpp"

#include <algorithm>
#include <cmath>

#include "floodtide/base/error.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {

ScheduleCost cost(const MessageSchedule& schedule, std::size_t wire_bytes, std::int64_t segment) {
  FLOODTIDE_REQUIRE(segment >= 1, out_of_range, "cost: segments of ", segment, " elements, expected at least 1");
  ScheduleCost total;
  for (const MessageStep& step : schedule.steps) {
    ++total.steps;
    if (step.send_to != kNobody) {
      const std::int64_t count = step.sent.size();
      total.messages += std::max<std::int64_t>(1, (count + segment - 1) / segment);
      total.bytes += count * static_cast<std::int64_t>(wire_bytes);
    }
    if (step.receive_from != kNobody && step.reduce) total.reductions += step.received.size();
  }
  return total;
}

MessageSchedule allreduce_schedule(std::string_view algorithm, const RankPlace& place, std::int64_t count) {
  const AllreduceRow& row = allreduce_row(algorithm);
  FLOODTIDE_REQUIRE(row.schedule != nullptr, unsupported, "allreduce_schedule: the steps of '", algorithm,
                    "' are the library's");
  FLOODTIDE_REQUIRE(place.size >= 1 && place.rank >= 0 && place.rank < place.size && count >= 0, out_of_range,
                    "allreduce_schedule: rank ", place.rank, " of ", place.size, " with ", count, " elements");
  FLOODTIDE_REQUIRE(place.nodes.empty() || place.nodes.size() == static_cast<std::size_t>(place.size), shape_mismatch,
                    "allreduce_schedule: nodes of ", place.nodes.size(), " ranks, expected ", place.size);
  return row.schedule(place, count);
}

std::vector<MessageRounds> allreduce_rounds(std::string_view algorithm, double bytes, const RanksOnNodes& ranks) {
  const AllreduceRow& row = allreduce_row(algorithm);
  FLOODTIDE_REQUIRE(row.rounds != nullptr, unsupported, "allreduce_rounds: the steps of '", algorithm, "' are the library's");
  FLOODTIDE_REQUIRE(bytes >= 0 && std::isfinite(bytes) && ranks.ranks >= 1 && ranks.per_node >= 1, invalid_argument,
                    "allreduce_rounds: ", bytes, " bytes on ", ranks.ranks, " ranks, ", ranks.per_node,
                    " a node; expected at least 0, 1 and 1");
  if (ranks.ranks == 1) return {};
  return row.rounds(bytes, {ranks.ranks, std::min(ranks.per_node, ranks.ranks)});
}

}  // namespace floodtide::comm
