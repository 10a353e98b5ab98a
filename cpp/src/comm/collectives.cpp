// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/collectives.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/tags.hpp"

namespace floodtide::comm {
namespace {

void allreduce_bytes(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, std::string_view algorithm,
                     std::size_t segment_bytes) {
  allreduce_row(algorithm).run(comm, buffer, op, segment_bytes);
}

template <class T>
ReduceBuffer reducible(std::span<T> values, ElementType type) {
  return {std::as_writable_bytes(values).data(), static_cast<std::int64_t>(values.size()), type};
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

void allreduce(Communicator& comm, std::span<float> values, ReduceOp op, std::string_view algorithm,
               std::size_t segment_bytes) {
  allreduce_bytes(comm, reducible(values, ElementType::float32), op, algorithm, segment_bytes);
}

void allreduce(Communicator& comm, std::span<double> values, ReduceOp op, std::string_view algorithm,
               std::size_t segment_bytes) {
  allreduce_bytes(comm, reducible(values, ElementType::float64), op, algorithm, segment_bytes);
}

void allreduce(Communicator& comm, std::span<std::int64_t> values, ReduceOp op, std::string_view algorithm,
               std::size_t segment_bytes) {
  allreduce_bytes(comm, reducible(values, ElementType::int64), op, algorithm, segment_bytes);
}

void broadcast(Communicator& comm, std::span<std::byte> data, int root) {
  const int size = comm.size();
  FLOODTIDE_REQUIRE(root >= 0 && root < size, out_of_range, "broadcast: root ", root, " is outside 0 to ", size - 1);
  if (data.empty()) return;
  // Ranks are counted from the root; in the round of distance d the first d have the data and hand it to the next d.
  const int place = (comm.rank() - root + size) % size;
  std::vector<std::unique_ptr<Request>> departures;
  for (int distance = 1; distance < size; distance *= 2) {
    if (place < distance) {
      if (place + distance < size) departures.push_back(comm.send((place + distance + root) % size, kBroadcastTag, data));
    } else if (place < 2 * distance) {
      comm.receive((place - distance + root) % size, kBroadcastTag, data)->wait();
    }
  }
  for (const auto& departure : departures) departure->wait();
}

std::vector<std::vector<std::byte>> allgather(Communicator& comm, std::span<const std::byte> own) {
  const int rank = comm.rank();
  const int size = comm.size();
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(size), 0);
  bytes[static_cast<std::size_t>(rank)] = static_cast<std::int64_t>(own.size());
  allreduce(comm, std::span(bytes), ReduceOp::sum);
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(size));
  for (std::size_t other = 0; other < all.size(); ++other) all[other].resize(static_cast<std::size_t>(bytes[other]));
  std::copy(own.begin(), own.end(), all[static_cast<std::size_t>(rank)].begin());
  for (int step = 0; step + 1 < size; ++step) {
    auto& arriving = all[static_cast<std::size_t>((rank - step - 1 + size) % size)];
    const auto& leaving = all[static_cast<std::size_t>((rank - step + size) % size)];
    const auto arrival = comm.receive((rank + size - 1) % size, kAllgatherTag, arriving);
    const auto departure = comm.send((rank + 1) % size, kAllgatherTag, leaving);
    arrival->wait();
    departure->wait();
  }
  return all;
}

bool all_ok(Communicator& comm, bool ok) {
  std::array<std::int64_t, 1> value = {ok ? 1 : 0};
  allreduce(comm, std::span<std::int64_t>(value), ReduceOp::min);
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
