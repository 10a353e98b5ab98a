// SPDX-License-Identifier: Apache-2.0
#include "floodtide/comm/allreduce.hpp"

#include "comm/access.hpp"
#include "comm/allreduce/wire.hpp"
#include "comm/engine.hpp"

namespace floodtide::comm {
namespace {

const AllreduceRow& choose(std::string_view algorithm, std::int64_t bytes) {
  if (algorithm.find(':') == std::string_view::npos) return allreduce_row(algorithm);
  return allreduce_row(AllreduceTable::parse(algorithm).algorithm(bytes));
}

template <class T>
ReduceBuffer reducible(std::span<T> values, ReduceType type) {
  return {std::as_writable_bytes(values).data(), static_cast<std::int64_t>(values.size()), type};
}

}  // namespace

const AllreduceRow& chosen_row(std::string_view algorithm, Wire wire, std::int64_t elements) {
  const Payload payload{.element_bytes = element_bytes(ReduceType::float32), .type = ReduceType::float32, .wire = wire};
  return choose(algorithm, elements * static_cast<std::int64_t>(payload.wire_bytes()));
}

Operation start_allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, const AllreduceOptions& options) {
  require_wire("allreduce", options.wire, buffer.type);
  const Payload payload{
      .data = buffer.data, .element_bytes = element_bytes(buffer.type), .type = buffer.type, .op = op, .wire = options.wire};
  const AllreduceRow& row = choose(options.algorithm, buffer.count * static_cast<std::int64_t>(payload.wire_bytes()));
  FLOODTIDE_REQUIRE(options.wire == Wire::native || row.schedule != nullptr, invalid_argument, "allreduce: the algorithm ",
                    row.name, " has no wire format ", name(options.wire));
  const Notice notice{.collective = Collective::allreduce,
                      .algorithm = static_cast<std::int32_t>(&row - allreduce_rows().data()),
                      .type = buffer.type,
                      .op = op,
                      .wire = options.wire,
                      .count = buffer.count,
                      .segment_bytes = static_cast<std::int64_t>(options.segment_bytes)};
  Engine& engine = engine_of(comm);
  if (row.schedule == nullptr) return engine.start_library(notice, buffer, options.words);
  return engine.start(notice, engine.allreduce_schedule(row, buffer.count), payload, options.words);
}

void allreduce(Communicator& comm, const ReduceBuffer& buffer, ReduceOp op, const AllreduceOptions& options) {
  start_allreduce(comm, buffer, op, options).wait();
}

void allreduce(Communicator& comm, std::span<float> values, ReduceOp op, std::string_view algorithm,
               std::size_t segment_bytes) {
  allreduce(comm, reducible(values, ReduceType::float32), op, {.algorithm = algorithm, .segment_bytes = segment_bytes});
}

void allreduce(Communicator& comm, std::span<double> values, ReduceOp op, std::string_view algorithm,
               std::size_t segment_bytes) {
  allreduce(comm, reducible(values, ReduceType::float64), op, {.algorithm = algorithm, .segment_bytes = segment_bytes});
}

void allreduce(Communicator& comm, std::span<std::int64_t> values, ReduceOp op, std::string_view algorithm,
               std::size_t segment_bytes) {
  allreduce(comm, reducible(values, ReduceType::int64), op, {.algorithm = algorithm, .segment_bytes = segment_bytes});
}

}  // namespace floodtide::comm
