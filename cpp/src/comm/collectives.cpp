// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/collectives.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "comm/access.hpp"
#include "comm/allreduce/steps.hpp"
#include "comm/engine.hpp"
#include "comm/schedules.hpp"
#include "floodtide/base/clock.hpp"

namespace floodtide::comm {
namespace {

constexpr int kClockTag = 3;
constexpr int kClockExchanges = 20;

/// Throws Error(shape_mismatch) unless there is one block per rank, in order, and the blocks fill the array.
void require_blocks(const char* operation, const Communicator& comm, std::span<const std::int64_t> blocks, std::int64_t count) {
  FLOODTIDE_REQUIRE(blocks.size() == static_cast<std::size_t>(comm.size()) + 1, shape_mismatch, operation, ": ", blocks.size(),
                    " block limits, expected one more than the ", comm.size(), " ranks");
  FLOODTIDE_REQUIRE(blocks.front() == 0 && blocks.back() == count && std::ranges::is_sorted(blocks), shape_mismatch, operation,
                    ": block limits go from ", blocks.front(), " to ", blocks.back(), ", expected ascending from 0 to ", count);
}

/// Return the limits of the blocks of all ranks, size + 1 offsets in bytes. `own` is the number of bytes of this rank.
///
/// The function is an allreduce. In the comparison between ranks, it counts as the first half of an allgather.
std::vector<std::int64_t> exchange_lengths(Communicator& comm, std::size_t own, std::string_view words) {
  std::vector<std::int64_t> limits(static_cast<std::size_t>(comm.size()) + 1, 0);
  limits[static_cast<std::size_t>(comm.rank()) + 1] = static_cast<std::int64_t>(own);
  Engine& engine = engine_of(comm);
  const std::int64_t count = std::ssize(limits);
  const Notice notice{.collective = Collective::lengths, .type = ReduceType::int64, .count = count};
  const Payload payload = Payload::of(ReduceBuffer::of(std::span(limits)), ReduceOp::sum);
  engine.start(notice, engine.allreduce_schedule(allreduce_row("recursive_doubling"), count), payload, words).wait();
  for (std::size_t i = 1; i < limits.size(); ++i) limits[i] += limits[i - 1];
  return limits;
}

/// Return an exception as bytes: one byte for the code, then the message. Return no bytes for null.
std::vector<std::byte> failure_record(const std::exception_ptr& failure) {
  if (!failure) return {};
  const Error error = as_error(failure);
  const std::string message = error.what();
  std::vector<std::byte> record(1 + message.size());
  record[0] = static_cast<std::byte>(error.code());
  std::memcpy(record.data() + 1, message.data(), message.size());
  return record;
}

}  // namespace

SharedSchedule ring_phase(const RankPlace& place, std::span<const std::int64_t> blocks, int first, bool reduce) {
  const auto block = [&](int number) {
    const auto i = static_cast<std::size_t>((number + 2 * place.size) % place.size);
    return Range{blocks[i], blocks[i + 1]};
  };
  MessageSchedule schedule;
  for (int step = 0; step + 1 < place.size; ++step) {
    const int sent = place.rank - first - step;
    add_step(schedule, {.send_to = (place.rank + 1) % place.size,
                        .sent = block(sent),
                        .receive_from = (place.rank + place.size - 1) % place.size,
                        .received = block(sent - 1),
                        .reduce = reduce,
                        .keep = !reduce});
  }
  return std::make_shared<const MessageSchedule>(std::move(schedule));
}

SharedSchedule binomial_tree(const Communicator& comm, std::int64_t bytes, int root) {
  const int size = comm.size();
  const int place = (comm.rank() - root + size) % size;
  MessageSchedule schedule;
  for (int distance = 1; distance < size; distance *= 2) {
    MessageStep step;
    if (place < distance && place + distance < size) {
      step = {.send_to = (place + distance + root) % size, .sent = {0, bytes}};
    } else if (place >= distance && place < 2 * distance) {
      step = {.receive_from = (place - distance + root) % size, .received = {0, bytes}};
    }
    add_step(schedule, step);
  }
  return std::make_shared<const MessageSchedule>(std::move(schedule));
}

Operation start_barrier(Communicator& comm) { return engine_of(comm).start_empty(Collective::barrier); }

Operation start_broadcast(Communicator& comm, std::span<std::byte> data, int root, std::string_view words) {
  const int size = comm.size();
  FLOODTIDE_REQUIRE(root >= 0 && root < size, out_of_range, "broadcast: root ", root, " is outside 0 to ", size - 1);
  const auto bytes = static_cast<std::int64_t>(data.size());
  const Notice notice{.collective = Collective::broadcast, .root = root, .count = bytes};
  return engine_of(comm).start(notice, binomial_tree(comm, bytes, root), {.data = data.data()}, words);
}

void broadcast(Communicator& comm, std::span<std::byte> data, int root, std::string_view words) {
  start_broadcast(comm, data, root, words).wait();
}

std::vector<std::int64_t> even_blocks(std::int64_t count, int ranks) {
  std::vector<std::int64_t> blocks;
  for (int rank = 0; rank < ranks; ++rank) blocks.push_back(chunk_range(count, ranks, rank).begin);
  blocks.push_back(count);
  return blocks;
}

Operation start_reduce_scatter(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op,
                               std::span<const std::int64_t> blocks, Wire wire, std::string_view words) {
  require_blocks("reduce_scatter", comm, blocks, buffer.count);
  require_wire("reduce_scatter", wire, buffer.type);
  const Notice notice{.collective = Collective::reduce_scatter,
                      .type = buffer.type,
                      .op = op,
                      .wire = wire,
                      .count = buffer.count,
                      .blocks = notice_hash(std::as_bytes(std::span(blocks)))};
  const auto schedule = ring_phase({comm.rank(), comm.size()}, blocks, 1, true);
  return engine_of(comm).start(notice, schedule, Payload::of(buffer, op, wire), words);
}

void reduce_scatter(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, std::span<const std::int64_t> blocks,
                    Wire wire, std::string_view words) {
  start_reduce_scatter(comm, buffer, op, blocks, wire, words).wait();
}

Operation start_allgather(Communicator& comm, std::span<std::byte> data, std::span<const std::int64_t> blocks,
                          std::string_view words) {
  const auto bytes = static_cast<std::int64_t>(data.size());
  require_blocks("allgather", comm, blocks, bytes);
  const Notice notice{
      .collective = Collective::allgather, .count = bytes, .blocks = notice_hash(std::as_bytes(std::span(blocks)))};
  const auto schedule = ring_phase({comm.rank(), comm.size()}, blocks, 0, false);
  return engine_of(comm).start(notice, schedule, {.data = data.data()}, words);
}

std::vector<std::vector<std::byte>> allgather(Communicator& comm, std::span<const std::byte> own, std::string_view words) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto rank = static_cast<std::size_t>(comm.rank());
  const std::vector<std::int64_t> limits = exchange_lengths(comm, own.size(), words);
  std::vector<std::byte> joint(static_cast<std::size_t>(limits.back()));
  std::ranges::copy(own, joint.begin() + limits[rank]);
  start_allgather(comm, joint, limits, words).wait();
  std::vector<std::vector<std::byte>> all;
  for (std::size_t i = 0; i < ranks; ++i) all.emplace_back(joint.begin() + limits[i], joint.begin() + limits[i + 1]);
  return all;
}

std::int64_t clock_offset_ns(Communicator& comm) {
  std::int64_t time = 0;
  const auto bytes = std::as_writable_bytes(std::span(&time, 1));
  if (comm.rank() == 0) {
    for (int rank = 1; rank < comm.size(); ++rank) {
      for (int exchange = 0; exchange < kClockExchanges; ++exchange) {
        comm.receive(rank, kClockTag, bytes)->wait();
        time = now_ns();
        comm.send(rank, kClockTag, bytes)->wait();
      }
    }
    return 0;
  }
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max(), offset = 0;
  for (int exchange = 0; exchange < kClockExchanges; ++exchange) {
    const std::int64_t start = now_ns();
    comm.send(0, kClockTag, bytes)->wait();
    comm.receive(0, kClockTag, bytes)->wait();
    const std::int64_t end = now_ns();
    if (end - start >= fastest) continue;
    fastest = end - start;
    offset = time - (start + (end - start) / 2);
  }
  return offset;
}

void agree(Communicator& comm, const std::exception_ptr& failure_here) {
  const auto records = allgather(comm, failure_record(failure_here), "failures");
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const auto& record = records[rank];
    if (record.empty()) continue;
    const std::string message(reinterpret_cast<const char*>(record.data()) + 1, record.size() - 1);
    throw AgreedError(static_cast<ErrorCode>(record[0]), message, static_cast<int>(rank), comm.size());
  }
}

}  // namespace floodtide::comm
