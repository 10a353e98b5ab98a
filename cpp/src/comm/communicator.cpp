// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/communicator.hpp"

#include <algorithm>
#include <cstdlib>

#include "comm/access.hpp"
#include "comm/engine.hpp"
#include "floodtide/base/error.hpp"
#include "floodtide/base/isa.hpp"
#include "floodtide/comm/collectives.hpp"

namespace floodtide::comm {
namespace {

constexpr std::size_t kLongestRun = 3;  // longer runs of ranks are written as a range

void require_peer(const char* operation, int peer, int tag, int size) {
  FLOODTIDE_REQUIRE(peer >= 0 && peer < size, out_of_range, operation, ": rank ", peer, " is outside 0 to ", size - 1);
  FLOODTIDE_REQUIRE(tag >= 0 && tag <= kLastTag, out_of_range, operation, ": tag ", tag, " is outside 0 to ", kLastTag);
}

/// Return the environment variable FLOODTIDE_RANKS_PER_NODE, or 0 if it is not set.
int ranks_per_node_of_environment() {
  const char* const text = std::getenv("FLOODTIDE_RANKS_PER_NODE");
  if (text == nullptr || *text == '\0') return 0;
  const int ranks = std::atoi(text);
  FLOODTIDE_REQUIRE(ranks >= 1 && std::to_string(ranks) == text, invalid_argument, "FLOODTIDE_RANKS_PER_NODE is '", text,
                    "', expected a number of ranks from 1");
  return ranks;
}

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator() : Communicator(0, 1) {}

  std::string description() const override { return "self"; }
  std::string node_name() const override { return "this process"; }
  std::unique_ptr<Communicator> split(int color, int /*key*/) override {
    FLOODTIDE_REQUIRE(color >= 0, invalid_argument, "split: color is ", color, ", expected at least 0");
    return self();
  }
  void abort(int /*status*/, std::string_view reason) override {
    raise(ErrorCode::communication, "rank 0 ended the job: ", reason);
  }

 private:
  std::unique_ptr<Request> start_send(int, int, std::span<const std::byte>) override { return no_message(); }
  std::unique_ptr<Request> start_receive(int, int, std::span<std::byte>) override { return no_message(); }
  [[noreturn]] static std::unique_ptr<Request> no_message() {
    raise(ErrorCode::unsupported, "self: a single rank has no other rank to exchange messages with");
  }
};

}  // namespace

std::unique_ptr<Communicator> self() { return std::make_unique<SelfCommunicator>(); }

std::string name_ranks(std::span<const int> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    const bool is_run = end - i > kLongestRun;
    if (!is_run) end = i + 1;
    text += str_cat(i == 0 ? "" : ", ", ranks[i]);
    if (is_run) text += str_cat("-", ranks[end - 1]);
    i = end;
  }
  return text;
}

std::size_t element_bytes(ReduceType type) noexcept {
  switch (type) {
    case ReduceType::float64:
    case ReduceType::int64: return 8;
    case ReduceType::float32:
    case ReduceType::int32: return 4;
    case ReduceType::float16: return 2;
    case ReduceType::uint8:
    case ReduceType::int8: return 1;
  }
  return 1;
}

// Reads the environment for all later calls: they may be made on other threads, while Python changes the environment.
Communicator::Communicator(int rank, int size)
    : rank_(rank), size_(size), engine_(std::make_unique<Engine>(*this)), ranks_per_node_(ranks_per_node_of_environment()) {
  static_cast<void>(active_isa());
}

Communicator::~Communicator() = default;

std::unique_ptr<Request> Communicator::send(int to, int tag, std::span<const std::byte> data) {
  require_peer("send", to, tag, size_);
  messages_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(static_cast<std::int64_t>(data.size()), std::memory_order_relaxed);
  return start_send(to, tag, data);
}

std::unique_ptr<Request> Communicator::send_notice(int to, std::span<const std::byte> data) {
  notices_.fetch_add(1, std::memory_order_relaxed);
  return start_send(to, kNoticeTag, data);
}

std::unique_ptr<Request> Communicator::receive(int from, int tag, std::span<std::byte> out_data) {
  require_peer("receive", from, tag, size_);
  return start_receive(from, tag, out_data);
}

void Communicator::barrier() { start_barrier(*this).wait(); }

void Communicator::require_library_allreduce(ReduceType) const {
  raise(ErrorCode::unsupported, "allreduce 'mpi': the transport ", description(), " has no allreduce of its own; use 'ring'");
}

std::unique_ptr<Request> Communicator::start_library_allreduce(const ReduceBuffer& buffer, ReduceOp) {
  require_library_allreduce(buffer.type);
  return nullptr;
}

void Communicator::blocking_library_allreduce(const ReduceBuffer& buffer, ReduceOp op) {
  start_library_allreduce(buffer, op)->wait();
}

void Communicator::end_host_within(double) {}

Traffic Communicator::traffic() const noexcept { return {messages_, bytes_, notices_}; }

std::vector<std::string> Communicator::pending() const { return engine_->pending(); }

void Communicator::set_ranks_per_node(int ranks) {
  FLOODTIDE_REQUIRE(ranks >= 1, invalid_argument, "set_ranks_per_node: ", ranks, " ranks, expected at least 1");
  ranks_per_node_ = ranks;
  nodes_.clear();
}

std::span<const int> Communicator::nodes() {
  if (!nodes_.empty()) return nodes_;
  if (ranks_per_node_ > 0) {
    std::vector<std::string> names;
    for (int rank = 0; rank < size_; ++rank) names.push_back(std::to_string(rank / ranks_per_node_));
    number_nodes(names);
  } else {
    engine_->start_empty(Collective::locate).wait();
    const Engine::GroupAside aside(*engine_);
    locate();
  }
  return nodes_;
}

void Communicator::locate() {
  const std::string own = node_name();
  std::vector<std::string> names;
  for (const auto& bytes : allgather(*this, std::as_bytes(std::span(own)), "names of nodes")) {
    names.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  number_nodes(names);
}

void Communicator::number_nodes(std::span<const std::string> names) {
  std::vector<std::string> known;
  std::vector<int> nodes;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(known, name);
    nodes.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) known.push_back(name);
  }
  nodes_ = std::move(nodes);
}

}  // namespace floodtide::comm
