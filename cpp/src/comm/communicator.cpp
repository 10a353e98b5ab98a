// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/communicator.hpp"

#include "comm/tags.hpp"
#include "floodtide/base/error.hpp"

namespace floodtide::comm {
namespace {

void require_peer(const char* operation, int peer, int tag, int size) {
  FLOODTIDE_REQUIRE(peer >= 0 && peer < size, out_of_range, operation, ": rank ", peer, " is outside 0 to ", size - 1);
  FLOODTIDE_REQUIRE(tag >= 0 && tag <= kLastTag, out_of_range, operation, ": tag ", tag, " is outside 0 to ", kLastTag);
}

}  // namespace

std::string_view name(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
  }
  return "unknown";
}

std::size_t element_bytes(ElementType type) noexcept { return type == ElementType::float32 ? 4 : 8; }

std::unique_ptr<Request> Communicator::send(int to, int tag, std::span<const std::byte> data) {
  require_peer("send", to, tag, size_);
  return start_send(to, tag, data);
}

std::unique_ptr<Request> Communicator::receive(int from, int tag, std::span<std::byte> out_data) {
  require_peer("receive", from, tag, size_);
  return start_receive(from, tag, out_data);
}

void Communicator::barrier() {
  for (int distance = 1; distance < size_; distance *= 2) {
    const auto arrival = receive((rank_ - distance + size_) % size_, kBarrierTag, {});
    const auto signal = send((rank_ + distance) % size_, kBarrierTag, {});
    arrival->wait();
    signal->wait();
  }
}

void Communicator::library_allreduce(const ReduceBuffer&, ReduceOp) {
  raise(ErrorCode::unsupported, "allreduce 'mpi': the transport ", description(), " has no allreduce of its own; use 'ring'");
}

std::span<std::byte> Communicator::scratch(std::size_t bytes) {
  if (static_cast<std::size_t>(scratch_.size()) < bytes) scratch_ = AlignedBuffer<std::byte>(static_cast<std::int64_t>(bytes));
  return scratch_.span().first(bytes);
}

}  // namespace floodtide::comm
