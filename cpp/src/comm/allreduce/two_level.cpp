// SPDX-License-Identifier: Apache-2.0
// Two-level allreduce: first inside each node, then across nodes.
//
// The array is split into g shards, where g is the number of ranks on the smallest node. On every node, each of the first g
// ranks owns one shard. All ranks of the node send their values of a shard to its owner. At distance d, rank l sends to l + d
// and receives from l - d. No two ranks therefore send to the same rank at the same time. The owners of a shard then reduce it
// across nodes, and send the result to all ranks of their node.
//
// Nodes may have different sizes: ranks without a shard only send and receive. If a node has one rank, g is 1, and the owner is
// the leader of its node. The algorithm does not split communicators.
#include <algorithm>
#include <vector>

#include "comm/allreduce/steps.hpp"
#include "floodtide/comm/allreduce.hpp"

namespace floodtide::comm {
namespace {

/// Return the ranks of each node, ascending.
std::vector<std::vector<int>> members_of_nodes(const RankPlace& place) {
  const auto node = [&](int rank) { return place.nodes.empty() ? 0 : place.nodes[static_cast<std::size_t>(rank)]; };
  std::vector<std::vector<int>> members;
  for (int rank = 0; rank < place.size; ++rank) {
    const auto number = static_cast<std::size_t>(node(rank));
    if (members.size() <= number) members.resize(number + 1);
    members[number].push_back(rank);
  }
  return members;
}

MessageSchedule schedule(const RankPlace& place, std::int64_t count) {
  const auto nodes = members_of_nodes(place);
  const auto is_here = [&](const std::vector<int>& members) { return std::ranges::count(members, place.rank) > 0; };
  const std::vector<int>& here = *std::ranges::find_if(nodes, is_here);
  const int ranks = static_cast<int>(here.size());
  const int own = static_cast<int>(std::ranges::find(here, place.rank) - here.begin());
  int shards = place.size;
  for (const auto& members : nodes) shards = std::min(shards, static_cast<int>(members.size()));
  const auto shard = [&](int owner) { return owner < shards ? chunk_range(count, shards, owner) : Range{0, 0}; };

  MessageSchedule plan;
  const auto exchange_in_node = [&](bool reduce) {
    for (int distance = 1; distance < ranks; ++distance) {
      const int to = (own + distance) % ranks;
      const int from = (own + ranks - distance) % ranks;
      add_step(plan, {.send_to = here[static_cast<std::size_t>(to)],
                      .sent = shard(reduce ? to : own),
                      .receive_from = here[static_cast<std::size_t>(from)],
                      .received = shard(reduce ? own : from),
                      .reduce = reduce,
                      .keep = !reduce});
    }
  };
  exchange_in_node(true);
  if (own < shards) {
    std::vector<int> owners;
    int place_among_owners = 0;
    for (const auto& members : nodes) {
      if (&members == &here) place_among_owners = static_cast<int>(owners.size());
      owners.push_back(members[static_cast<std::size_t>(own)]);
    }
    append_rabenseifner(plan, {owners, place_among_owners}, shard(own));
  }
  exchange_in_node(false);
  return plan;
}

}  // namespace

extern const AllreduceRow kTwoLevel = {.name = "two_level",
                                       .help = "first inside each node, then between nodes; for several ranks per node",
                                       .schedule = &schedule,
                                       .nodes_only = true};

}  // namespace floodtide::comm
