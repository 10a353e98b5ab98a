// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/collectives.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/allreduce/steps.hpp"
#include "comm/allreduce/wire.hpp"
#include "comm/engine.hpp"

namespace floodtide::comm {
namespace {

/// Throws unless there is a block for every rank, in order, and they fill the array.
void require_blocks(const char* operation, const Communicator& comm, std::span<const std::int64_t> blocks, std::int64_t count) {
  FLOODTIDE_REQUIRE(blocks.size() == static_cast<std::size_t>(comm.size()) + 1, shape_mismatch, operation, ": ", blocks.size(),
                    " block limits, expected one more than the ", comm.size(), " ranks");
  FLOODTIDE_REQUIRE(blocks.front() == 0 && blocks.back() == count && std::ranges::is_sorted(blocks), shape_mismatch, operation,
                    ": block limits go from ", blocks.front(), " to ", blocks.back(), ", expected ascending from 0 to ", count);
}

/// One phase of a ring: in step s rank r passes block r - first - s on and takes block r - first - s - 1 in.
Schedule ring_phase(const Communicator& comm, std::span<const std::int64_t> blocks, int first, bool reduce) {
  const int size = comm.size();
  const auto block = [&](int number) {
    const auto i = static_cast<std::size_t>((number + 2 * size) % size);
    return Range{blocks[i], blocks[i + 1]};
  };
  Schedule schedule;
  for (int step = 0; step + 1 < size; ++step) {
    const int sent = comm.rank() - first - step;
    add_step(schedule, {.send_to = (comm.rank() + 1) % size,
                        .sent = block(sent),
                        .receive_from = (comm.rank() + size - 1) % size,
                        .received = block(sent - 1),
                        .reduce = reduce,
                        .keep = !reduce});
  }
  return schedule;
}

/// Ranks are counted from the root; in the round of distance d the first d have the data and hand it to the next d.
Schedule binomial_tree(const Communicator& comm, std::int64_t bytes, int root) {
  const int size = comm.size();
  const int place = (comm.rank() - root + size) % size;
  Schedule schedule;
  for (int distance = 1; distance < size; distance *= 2) {
    Step step;
    if (place < distance && place + distance < size) {
      step = {.send_to = (place + distance + root) % size, .sent = {0, bytes}};
    } else if (place >= distance && place < 2 * distance) {
      step = {.receive_from = (place - distance + root) % size, .received = {0, bytes}};
    }
    add_step(schedule, step);
  }
  return schedule;
}

Schedule dissemination(const Communicator& comm) {
  Schedule schedule;
  for (int distance = 1; distance < comm.size(); distance *= 2) {
    schedule.steps.push_back({.send_to = (comm.rank() + distance) % comm.size(),
                              .receive_from = (comm.rank() - distance + comm.size()) % comm.size()});
  }
  return schedule;
}

/// The code and message of an exception, as bytes: one byte of code, then the text. Empty for no exception.
std::vector<std::byte> failure_record(const std::exception_ptr& failure) {
  if (!failure) return {};
  ErrorCode code = ErrorCode::internal;
  std::string message = "an exception of unknown type";
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    code = error.code();
    message = error.what();
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the defaults say it
  }
  std::vector<std::byte> record(1 + message.size());
  record[0] = static_cast<std::byte>(code);
  std::memcpy(record.data() + 1, message.data(), message.size());
  return record;
}

}  // namespace

Operation start_barrier(Communicator& comm) {
  return comm.engine().start({.collective = Collective::barrier}, std::make_shared<const Schedule>(dissemination(comm)), {});
}

Operation start_broadcast(Communicator& comm, std::span<std::byte> data, int root) {
  const int size = comm.size();
  FLOODTIDE_REQUIRE(root >= 0 && root < size, out_of_range, "broadcast: root ", root, " is outside 0 to ", size - 1);
  const auto bytes = static_cast<std::int64_t>(data.size());
  const Notice notice{.collective = Collective::broadcast,
                      .count = bytes,
                      .segment_bytes = static_cast<std::int64_t>(kDefaultSegmentBytes),
                      .detail = root};
  return comm.engine().start(notice, std::make_shared<const Schedule>(binomial_tree(comm, bytes, root)), {.data = data.data()});
}

void broadcast(Communicator& comm, std::span<std::byte> data, int root) { start_broadcast(comm, data, root).wait(); }

std::vector<std::int64_t> even_blocks(std::int64_t count, int ranks) {
  std::vector<std::int64_t> blocks;
  for (int rank = 0; rank < ranks; ++rank) blocks.push_back(chunk_range(count, ranks, rank).begin);
  blocks.push_back(count);
  return blocks;
}

Operation start_reduce_scatter(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op,
                               std::span<const std::int64_t> blocks, Wire wire) {
  require_blocks("reduce_scatter", comm, blocks, buffer.count);
  require_wire("reduce_scatter", wire, buffer.type);
  const Notice notice{.collective = Collective::reduce_scatter,
                      .type = buffer.type,
                      .op = op,
                      .wire = wire,
                      .count = buffer.count,
                      .segment_bytes = static_cast<std::int64_t>(kDefaultSegmentBytes),
                      .detail = hash_of(blocks)};
  const Payload payload{buffer.data, element_bytes(buffer.type), buffer.type, op, wire};
  return comm.engine().start(notice, std::make_shared<const Schedule>(ring_phase(comm, blocks, 1, true)), payload);
}

void reduce_scatter(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, std::span<const std::int64_t> blocks,
                    Wire wire) {
  start_reduce_scatter(comm, buffer, op, blocks, wire).wait();
}

Operation start_allgather(Communicator& comm, std::span<std::byte> data, std::span<const std::int64_t> blocks) {
  const auto bytes = static_cast<std::int64_t>(data.size());
  require_blocks("allgather", comm, blocks, bytes);
  const Notice notice{.collective = Collective::allgather,
                      .count = bytes,
                      .segment_bytes = static_cast<std::int64_t>(kDefaultSegmentBytes),
                      .detail = hash_of(blocks)};
  return comm.engine().start(notice, std::make_shared<const Schedule>(ring_phase(comm, blocks, 0, false)),
                             {.data = data.data()});
}

void allgather(Communicator& comm, std::span<std::byte> data, std::span<const std::int64_t> blocks) {
  start_allgather(comm, data, blocks).wait();
}

std::vector<std::vector<std::byte>> allgather(Communicator& comm, std::span<const std::byte> own) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  std::vector<std::int64_t> limits(ranks + 1, 0);  // lengths, then where the blocks begin
  limits[rank + 1] = static_cast<std::int64_t>(own.size());
  allreduce(comm, std::span(limits), ReduceOp::sum, "recursive_doubling");
  for (std::size_t i = 0; i < ranks; ++i) limits[i + 1] += limits[i];
  std::vector<std::byte> joint(static_cast<std::size_t>(limits.back()));
  std::ranges::copy(own, joint.begin() + limits[rank]);
  allgather(comm, joint, limits);
  std::vector<std::vector<std::byte>> all;
  for (std::size_t i = 0; i < ranks; ++i) all.emplace_back(joint.begin() + limits[i], joint.begin() + limits[i + 1]);
  return all;
}

bool all_ok(Communicator& comm, bool ok) {
  std::array<std::int64_t, 1> value = {ok ? 1 : 0};
  allreduce(comm, std::span<std::int64_t>(value), ReduceOp::min, "recursive_doubling");
  return value[0] == 1;
}

void agree(Communicator& comm, const std::exception_ptr& failure_here) {
  const auto records = allgather(comm, failure_record(failure_here));
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const auto& record = records[rank];
    if (record.empty()) continue;
    const std::string message(reinterpret_cast<const char*>(record.data()) + 1, record.size() - 1);
    throw AgreedError(static_cast<ErrorCode>(record[0]), message, static_cast<int>(rank));
  }
}

}  // namespace floodtide::comm
